//! In which order those who wait are granted.

/// How many pairs are in another order than that in which they came: the later one of the pair was granted first.
#[must_use]
pub fn inversions(order: &[usize]) -> usize {
    let later = |at: usize| order[at + 1..].iter().filter(|&&worker| worker < order[at]).count();
    (0..order.len()).map(later).sum()
}

#[cfg(test)]
mod tests {
    use super::inversions;

    #[test]
    fn a_pair_in_the_wrong_order_is_an_inversion() {
        assert_eq!(inversions(&[0, 1, 2, 3]), 0);
        assert_eq!(inversions(&[0, 2, 1, 3]), 1);
        assert_eq!(inversions(&[3, 2, 1, 0]), 6);
    }
}
