//! The little of SVG that the plots need: paths and rectangles in classes, which the style sheet
//! colours. No text and no attribute of it comes from a result file.
//!
//! A plot area is [`WIDTH`] units wide and as many units high as pixels, and is stretched to the
//! page's width; strokes keep their width by `vector-effect` in the style sheet. Labels are HTML,
//! and so keep their size too.

use std::fmt::Write;

/// Units across a plot area.
pub(crate) const WIDTH: f64 = 1000.0;

/// The data of a `path` element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// Moves to a place.
    pub(crate) fn move_to(&mut self, x: f64, y: f64) -> &mut Self {
        self.point('M', x, y)
    }

    /// Draws a line to a place.
    pub(crate) fn line_to(&mut self, x: f64, y: f64) -> &mut Self {
        self.point('L', x, y)
    }

    /// Moves to the first of these places or draws a line to it, and then lines to the others.
    pub(crate) fn lines(&mut self, points: impl IntoIterator<Item = (f64, f64)>) -> &mut Self {
        for (at, (x, y)) in points.into_iter().enumerate() {
            if at == 0 {
                self.move_to(x, y)
            } else {
                self.line_to(x, y)
            };
        }
        self
    }

    /// A line across, from `x` to `to`.
    pub(crate) fn across(&mut self, x: f64, y: f64, to: f64) -> &mut Self {
        self.move_to(x, y);
        self.one('H', to)
    }

    /// A line upright, from `y` to `to`.
    pub(crate) fn upright(&mut self, x: f64, y: f64, to: f64) -> &mut Self {
        self.move_to(x, y);
        self.one('V', to)
    }

    /// A rectangle.
    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64) -> &mut Self {
        self.move_to(x, y);
        self.one('h', width).one('v', height).one('h', -width);
        self.0.push('z');
        self
    }

    /// A dot: the style sheet's round line ends make it one.
    pub(crate) fn dot(&mut self, x: f64, y: f64) -> &mut Self {
        self.move_to(x, y);
        self.one('h', 0.0)
    }

    /// Whether there is nothing to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn point(&mut self, command: char, x: f64, y: f64) -> &mut Self {
        self.0.push(command);
        self.number(x);
        self.0.push(' ');
        self.number(y);
        self
    }

    fn one(&mut self, command: char, value: f64) -> &mut Self {
        self.0.push(command);
        self.number(value);
        self
    }

    /// With one decimal at most; what is not finite becomes 0.
    fn number(&mut self, value: f64) {
        let tenths = if value.is_finite() { (value * 10.0).round() as i64 } else { 0 };
        let sign = if tenths < 0 { "-" } else { "" };
        let (whole, tenth) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
        // Writing to a string cannot fail.
        _ = match tenth {
            0 => write!(self.0, "{sign}{whole}"),
            _ => write!(self.0, "{sign}{whole}.{tenth}"),
        };
    }
}

/// Drawn elements, the later ones over the earlier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawing(String);

impl Drawing {
    /// Draws `path` in the style of `class`; an empty path draws nothing.
    pub(crate) fn path(&mut self, class: &'static str, path: &Path) {
        self.path_of(class, "", path);
    }

    /// As [`Drawing::path`] with a second class.
    pub(crate) fn path_of(&mut self, class: &'static str, second: &str, path: &Path) {
        debug_assert!(second.bytes().all(|octet| octet.is_ascii_alphanumeric()));
        if !path.is_empty() {
            let gap = if second.is_empty() { "" } else { " " };
            _ = write!(self.0, "<path class=\"{class}{gap}{second}\" d=\"{}\"/>", path.0);
        }
    }

    /// Draws `inner`, `columns` by `rows` units, stretched into a rectangle.
    pub(crate) fn stretched(
        &mut self,
        (x, y, width, height): (f64, f64, f64, f64),
        (columns, rows): (usize, usize),
        inner: &Self,
    ) {
        _ = write!(
            self.0,
            "<svg x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             viewBox=\"0 0 {columns} {rows}\" preserveAspectRatio=\"none\">{}</svg>",
            inner.0
        );
    }

    /// The whole as an `svg` element of [`WIDTH`] by `height` units.
    pub(crate) fn finish(&self, height: f64) -> maud::PreEscaped<String> {
        maud::PreEscaped(format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" \
             aria-hidden=\"true\" focusable=\"false\">{}</svg>",
            self.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_short_and_never_hold_what_is_no_number() {
        let mut path = Path::default();
        path.move_to(1.04, -2.06).line_to(f64::NAN, f64::INFINITY).rect(0.0, 0.0, 10.0, 2.5);
        assert_eq!(path.0, "M1 -2.1L0 0M0 0h10v2.5h-10z");
        assert!(Path::default().is_empty());
    }

    #[test]
    fn nothing_is_drawn_for_an_empty_path() {
        let mut drawing = Drawing::default();
        drawing.path("line", &Path::default());
        assert_eq!(drawing.0, "");
    }
}
