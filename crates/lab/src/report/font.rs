//! A stroke font for pictures without a font file: letters as lines on a grid five wide and nine high.
//!
//! A glyph is a few polylines; a point is two digits, x then y, the baseline at y 2, capitals up to 8, descenders down
//! to 0. Enough for labels in English; anything else is drawn as a box.

/// Grid units from one character to the next.
pub const ADVANCE: f64 = 6.0;
/// Grid units from the baseline to the top of a capital.
pub const CAP_HEIGHT: f64 = 6.0;

const BASELINE: f64 = 2.0;

/// The polylines of a character, relative to its origin on the baseline, y upwards.
pub fn strokes(c: char) -> impl Iterator<Item = impl Iterator<Item = (f64, f64)>> {
    glyph(c).split(' ').map(|line| {
        line.as_bytes().chunks_exact(2).map(|point| {
            let digit = |byte: u8| f64::from(byte.wrapping_sub(b'0'));
            (digit(point[0]), digit(point[1]) - BASELINE)
        })
    })
}

#[rustfmt::skip]
fn glyph(c: char) -> &'static str {
    match c {
        ' ' => "",
        '0' => "12324347381807031202 0347", '1' => "172822 1232", '2' => "07183847460242",
        '3' => "0718384746354443321203 1535", '4' => "32380444", '5' => "4808053544433202",
        '6' => "38180703123243443505", '7' => "084812", '8' => "15060718384746351504031232434435",
        '9' => "123243473818070615354645",
        'A' => "022842 1434", 'B' => "02083847463505 3544433202", 'C' => "4738180703123243",
        'D' => "02082846442202", 'E' => "48080242 0535", 'F' => "480802 0535", 'G' => "47381807031232434525",
        'H' => "0208 4248 0545", 'I' => "2228 1232 1838", 'J' => "4843321203", 'K' => "0208 480542",
        'L' => "080242", 'M' => "0208254842", 'N' => "02084248", 'O' => "123243473818070312",
        'P' => "02083847463505", 'Q' => "123243473818070312 2442", 'R' => "02083847463505 2542",
        'S' => "473818070615354443321203", 'T' => "0848 2822", 'U' => "080312324348", 'V' => "082248",
        'W' => "0812263248", 'X' => "0248 0842", 'Y' => "082548 2522", 'Z' => "08480242",
        'a' => "16364542 441403123243", 'b' => "08023243453606", 'c' => "461605031242", 'd' => "48421203051646",
        'e' => "044445361605031242", 'f' => "38281712 0636", 'g' => "4616050312324346 46413010",
        'h' => "0802 0516364542", 'i' => "2622 2827", 'j' => "26211000 2827", 'k' => "0802 460442", 'l' => "2822",
        'm' => "0206 05162522 25364542", 'n' => "0206 0516364542", 'o' => "123243453616050312",
        'p' => "0006 063645433202", 'q' => "4046 461605031242", 'r' => "0206 042636", 's' => "4616051434433202",
        't' => "18132232 0636", 'u' => "06031242 4642", 'v' => "062246", 'w' => "0612253246", 'x' => "0246 0642",
        'y' => "0622 4610", 'z' => "06460242",
        '.' => "2223", ',' => "2210", ':' => "2223 2526", '-' => "1535", '/' => "0248", '+' => "0545 2327",
        '=' => "0444 0646", '_' => "0242", '<' => "471543", '>' => "073503", '(' => "38171332", ')' => "18373312",
        '[' => "38181232", ']' => "18383212", '%' => "0248 0718170607 3343423233", '\'' => "2826",
        _ => "0242480802",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printable_label_character_has_a_glyph_on_the_grid() {
        for c in
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,:-/+=_<>()[]%'".chars()
        {
            assert_ne!(glyph(c), glyph('\u{1F600}'), "{c} is drawn as a box");
            assert!(
                glyph(c)
                    .split(' ')
                    .all(|line| line.len() % 2 == 0 && line.len() >= 4),
                "{c}"
            );
            for line in strokes(c) {
                for (x, y) in line {
                    assert!(
                        (0.0..=4.0).contains(&x) && (-2.0..=6.0).contains(&y),
                        "{c}: {x} {y}"
                    );
                }
            }
        }
    }
}
