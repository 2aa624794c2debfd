//! Many tests at once.

/// Holm's (1979) adjusted p-values, in the order given: each compared with a level keeps the chance
/// of any false call in the family at that level, whatever the dependence.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<(f64, usize)> = p.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut adjusted = vec![1.0; p.len()];
    let mut highest = 0.0_f64;
    for (smaller, (p, at)) in order.into_iter().enumerate() {
        highest = highest.max((p * (adjusted.len() - smaller) as f64).min(1.0));
        if let Some(slot) = adjusted.get_mut(at) {
            *slot = highest;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusted_as_published() {
        // The example of R's documentation style: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let expected = [0.03, 0.06, 0.06, 0.02];
        let got = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
        assert!(adjusted(&[]).is_empty());
        assert_eq!(adjusted(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
