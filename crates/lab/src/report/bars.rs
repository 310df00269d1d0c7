//! Bar charts: horizontal bars in groups, a bar's lesser part in a weaker colour, a whisker for its interval.

use super::canvas::{Align, Canvas, Colour, Ink, Picture, TEXT_PX, WIDTH};
use super::chart::linear_ticks;

/// Groups of bars over one axis that begins at zero.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Title above it.
    pub title: String,
    /// What the axis tells.
    pub label: String,
    /// How a value is written.
    pub show: fn(f64) -> String,
    /// A line across all groups, where there is something to be compared with.
    pub mark: Option<f64>,
    /// Names of the groups and their bars; a single group may have no name.
    pub groups: Vec<(String, Vec<Bar>)>,
}

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Its length.
    pub value: f64,
    /// The part of it in the full colour; the rest is paler. `None`: all of it.
    pub part: Option<f64>,
    /// The interval around its end.
    pub interval: Option<(f64, f64)>,
}

const BAR: f64 = 17.0;
const GAP: f64 = 5.0;
const NAME: f64 = 22.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
const LEFT: f64 = 86.0;
/// Room for a bar's figure behind it.
const RIGHT: f64 = 96.0;

impl Bars {
    fn group_height(&self, (name, bars): &(String, Vec<Bar>)) -> f64 {
        let head = if name.is_empty() { 0.0 } else { NAME };
        head + bars.len() as f64 * (BAR + GAP) + 8.0
    }

    fn ticks(&self) -> Vec<f64> {
        let ends = self.groups.iter().flat_map(|(_, bars)| {
            bars.iter()
                .flat_map(|bar| [bar.value, bar.interval.map_or(0.0, |(_, high)| high)])
        });
        let most = ends
            .chain(self.mark)
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        linear_ticks(most)
    }

    fn draw_bar(&self, canvas: &mut dyn Canvas, bar: &Bar, y: f64, place: &dyn Fn(f64) -> f64) {
        let middle = y + BAR / 2.0;
        canvas.text(
            (LEFT - 8.0, middle + TEXT_PX / 2.0),
            Align::End,
            Ink::Text,
            &bar.name,
        );
        if !bar.value.is_finite() {
            return;
        }
        let title = format!("{}: {}", bar.name, (self.show)(bar.value));
        let full = bar
            .part
            .filter(|part| part.is_finite())
            .map_or(bar.value, |part| part.min(bar.value));
        let (start, end) = (place(0.0), place(bar.value));
        canvas.bar(
            (start, y),
            (place(full), y + BAR),
            Ink::Line(bar.colour),
            &title,
        );
        canvas.bar(
            (place(full), y),
            (end, y + BAR),
            Ink::Pale(bar.colour),
            &title,
        );
        let mut free = end;
        if let Some((low, high)) = bar.interval {
            let (low, high) = (place(low), place(high));
            canvas.line(&[(low, middle), (high, middle)], Ink::Text, 1.5);
            for x in [low, high] {
                canvas.line(&[(x, middle - 4.0), (x, middle + 4.0)], Ink::Text, 1.5);
            }
            free = free.max(high);
        }
        canvas.text(
            (free + 6.0, middle + TEXT_PX / 2.0),
            Align::Start,
            Ink::Text,
            &(self.show)(bar.value),
        );
    }
}

impl Picture for Bars {
    fn title(&self) -> &str {
        &self.title
    }

    fn height(&self) -> f64 {
        TOP + BOTTOM
            + self
                .groups
                .iter()
                .map(|g| self.group_height(g))
                .sum::<f64>()
    }

    fn draw(&self, canvas: &mut dyn Canvas) {
        let bottom = self.height() - BOTTOM;
        let ticks = self.ticks();
        let most = ticks.last().copied().unwrap_or(1.0);
        let place = |value: f64| LEFT + value / most * (WIDTH - LEFT - RIGHT);
        canvas.text((WIDTH / 2.0, 18.0), Align::Middle, Ink::Text, &self.title);
        for &tick in &ticks {
            let x = place(tick);
            canvas.line(&[(x, TOP - 6.0), (x, bottom)], Ink::Grid, 1.0);
            canvas.text(
                (x, bottom + 16.0),
                Align::Middle,
                Ink::Text,
                &(self.show)(tick),
            );
        }
        let mut y = TOP;
        for group in &self.groups {
            let mut at = y;
            if !group.0.is_empty() {
                canvas.text((8.0, at + 14.0), Align::Start, Ink::Text, &group.0);
                at += NAME;
            }
            for bar in &group.1 {
                self.draw_bar(canvas, bar, at, &place);
                at += BAR + GAP;
            }
            y += self.group_height(group);
        }
        if let Some(mark) = self.mark {
            canvas.line(
                &[(place(mark), TOP - 6.0), (place(mark), bottom)],
                Ink::Text,
                1.0,
            );
        }
        canvas.text(
            (WIDTH / 2.0, self.height() - 12.0),
            Align::Middle,
            Ink::Text,
            &self.label,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas;
    use super::*;

    fn bars(values: &[f64]) -> Bars {
        let bar = |&value: &f64| Bar {
            name: "a<b".to_owned(),
            colour: Colour::Blue,
            value,
            part: Some(value / 4.0),
            interval: Some((value - 1.0, value + 1.0)),
        };
        Bars {
            title: "t".to_owned(),
            label: "us".to_owned(),
            show: |v| format!("{v:.1}"),
            mark: Some(1.0),
            groups: vec![("g".to_owned(), values.iter().map(bar).collect())],
        }
    }

    #[test]
    fn each_bar_has_its_two_parts_and_its_figure() {
        let svg = canvas::svg(&bars(&[4.0, 8.0]));
        assert_eq!(svg.matches("<rect").count(), 4);
        assert!(svg.contains(">8.0<") && svg.contains("a&lt;b"));
    }

    #[test]
    fn what_was_not_measured_has_a_name_and_no_bar() {
        let svg = canvas::svg(&bars(&[f64::NAN]));
        assert!(!svg.contains("<rect") && !svg.contains("NaN") && svg.contains("a&lt;b"));
    }

    #[test]
    fn png_is_written() {
        let dir = crate::process::WorkDir::new().unwrap();
        let file = dir.path().join("bars.png");
        canvas::png(&bars(&[4.0, 8.0]), &file).unwrap();
        assert!(std::fs::read(&file).unwrap().starts_with(b"\x89PNG\r\n"));
    }
}
