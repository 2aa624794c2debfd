"use strict";
// Fetches the page again and takes over what is in it, unless somebody is reading a selection.
const live = document.getElementById("live");
let busy = false;
async function refresh() {
  if (busy || document.hidden || String(getSelection())) return;
  busy = true;
  try {
    const response = await fetch(location.href, { cache: "no-store" });
    if (!response.ok) throw new Error(response.status);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    document.querySelector("main").replaceWith(page.querySelector("main"));
    live.textContent = "live";
    live.classList.remove("lost");
  } catch (error) {
    live.textContent = "no answer from the server";
    live.classList.add("lost");
  }
  busy = false;
}
setInterval(refresh, 2000);
document.addEventListener("click", (event) => {
  const command = event.target.closest(".command");
  if (!command || !navigator.clipboard) return;
  navigator.clipboard.writeText(command.textContent).then(() => command.classList.add("copied"));
});
