"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const areas = [...document.querySelectorAll(".area[data-table]")];

  // The theme: as the system says, until the reader says otherwise.
  const button = document.getElementById("theme");
  const themes = ["", "light", "dark"];
  const kept = () => { try { return localStorage.getItem("nodens-lab-theme"); } catch { return null; } };
  const choose = (theme) => {
    root.dataset.theme = theme;
    button.textContent = "Theme: " + (theme || "system");
    try { localStorage.setItem("nodens-lab-theme", theme); } catch { /* a page may have no storage */ }
  };
  button.hidden = false;
  choose(new URLSearchParams(location.search).get("theme") || kept() || "");
  button.addEventListener("click", () => {
    choose(themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length]);
  });

  // The counts of a heat map: the part over the rows, the rows' bounds, and the columns.
  const heats = new Map();
  const heat = (area) => {
    if (!area.dataset.heat) return null;
    if (!heats.has(area)) {
      const [top, bounds, columns] = area.dataset.heat.split("|");
      const cells = columns.split(";").map((column) => {
        const rows = new Map();
        for (const run of column ? column.split(",") : []) {
          const [first, ...counts] = run.split(" ").map(Number);
          counts.forEach((count, at) => rows.set(first + at, count));
        }
        return rows;
      });
      heats.set(area, { top: Number(top), bounds: bounds.split(","), cells });
    }
    return heats.get(area);
  };

  const places = new Map();
  const at = (area) => {
    if (!places.has(area)) {
      const even = Number(area.dataset.even);
      places.set(area, even
        ? Array.from({ length: even }, (_, n) => (n + 0.5) / even)
        : area.dataset.at.split(" ").map(Number));
    }
    return places.get(area);
  };

  const nearest = (list, x) => {
    let best = 0;
    list.forEach((place, n) => { if (Math.abs(place - x) < Math.abs(list[best] - x)) best = n; });
    return best;
  };

  // What the table says about a place, as pairs of a heading and a cell.
  const read = (area, n) => {
    const table = document.getElementById(area.dataset.table);
    const row = table.tBodies[0].rows[n];
    const heads = table.tHead.rows[0].cells;
    const pairs = area.dataset.columns.split(" ").filter(Boolean)
      .map((column) => [heads[column], row.cells[column].textContent])
      .filter(([, text]) => text !== "");
    return { name: heads[0].textContent + " " + row.cells[0].textContent, pairs };
  };

  const cell = (area, n, y) => {
    const map = heat(area);
    if (!map || y === null || y < map.top) return null;
    const rows = map.bounds.length - 1;
    const row = Math.min(rows - 1, Math.max(0, Math.floor((1 - (y - map.top) / (1 - map.top)) * rows)));
    const all = [...map.cells[n].values()].reduce((sum, count) => sum + count, 0);
    const count = map.cells[n].get(row) || 0;
    const part = all ? Number((count / all * 100).toPrecision(2)) : 0;
    return `${map.bounds[row]} – ${map.bounds[row + 1]}: ${count.toLocaleString("en")} (${part} %)`;
  };

  const cross = (area, x) => {
    let line = area.querySelector(".cross");
    if (!line) { line = document.createElement("div"); line.className = "cross"; area.append(line); }
    line.hidden = x === null;
    if (x !== null) line.style.left = x * 100 + "%";
  };

  // Plots that read from one table show the same place together.
  const friends = (area) => areas.filter((other) => other.dataset.table === area.dataset.table);

  const hide = (area) => { tip.hidden = true; friends(area).forEach((other) => cross(other, null)); };

  const line = (...parts) => {
    const made = document.createElement("div");
    made.append(...parts);
    tip.append(made);
  };

  const show = (area, n, y, pointer) => {
    const { name, pairs } = read(area, n);
    const title = document.createElement("b");
    title.textContent = name;
    tip.replaceChildren(title);
    const inCell = cell(area, n, y);
    if (inCell) line(inCell);
    for (const [head, text] of pairs) {
      const what = document.createElement("span");
      what.append(...[...head.childNodes].map((node) => node.cloneNode(true)));
      line(what, text);
    }
    friends(area).forEach((other) => cross(other, at(other)[n]));
    tip.hidden = false;
    const box = area.getBoundingClientRect();
    const x = pointer ? pointer.clientX : box.left + at(area)[n] * box.width;
    const top = pointer ? pointer.clientY : box.top + 20;
    const wide = tip.offsetWidth + 18;
    tip.style.left = (x + wide > innerWidth ? Math.max(4, x - wide) : x + 18) + "px";
    tip.style.top = Math.max(4, Math.min(top + 12, innerHeight - tip.offsetHeight - 4)) + "px";
    area.setAttribute("aria-valuenow", n);
    const told = pairs.map(([head, text]) => head.textContent + " " + text);
    area.setAttribute("aria-valuetext", [name, ...told].join(", "));
  };

  for (const area of areas) {
    const last = at(area).length - 1;
    let place = 0;
    area.setAttribute("role", "slider");
    area.setAttribute("aria-valuemin", 0);
    area.setAttribute("aria-valuemax", last);
    area.setAttribute("aria-valuenow", 0);
    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      place = nearest(at(area), (event.clientX - box.left) / box.width);
      show(area, place, (event.clientY - box.top) / box.height, event);
    });
    area.addEventListener("pointerleave", () => hide(area));
    area.addEventListener("focus", () => { if (area.matches(":focus-visible")) show(area, place, null, null); });
    area.addEventListener("blur", () => hide(area));
    area.addEventListener("keydown", (event) => {
      const many = Math.max(1, Math.round(last / 10));
      const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -many, PageUp: many, Home: -last, End: last };
      if (event.key === "Escape") { hide(area); return; }
      if (!(event.key in moves)) return;
      event.preventDefault();
      place = Math.min(last, Math.max(0, place + moves[event.key]));
      show(area, place, null, null);
    });
  }
})();
