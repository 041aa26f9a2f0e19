//! Rounds of several sides, whose order changes from round to round.

use mongo_lease_measure::{Outcome, Round, Rounds, Spread};

use crate::side::Side;

/// The figures of each side, round by round.
pub(crate) struct PerSide<T>(Vec<(Side, Vec<T>)>);

impl<T> PerSide<T> {
    /// Measures so many rounds of each side, after a round of each that does not count.
    ///
    /// Each round has another [`order`], so that no side always comes behind the same one.
    pub(crate) async fn measured(
        rounds: usize,
        sides: &[Side],
        mut measure: impl AsyncFnMut(Side) -> Outcome<T>,
    ) -> Outcome<PerSide<T>> {
        PerSide::without_warm_up(1, sides, &mut measure).await?;
        PerSide::without_warm_up(rounds, sides, measure).await
    }

    /// The same, where rounds take long, and each of them warms up by itself.
    pub(crate) async fn without_warm_up(
        rounds: usize,
        sides: &[Side],
        mut measure: impl AsyncFnMut(Side) -> Outcome<T>,
    ) -> Outcome<PerSide<T>> {
        let mut all: Vec<(Side, Vec<T>)> = sides.iter().map(|side| (*side, Vec::new())).collect();
        for round in 0..rounds {
            for index in order(round, sides.len()) {
                let (side, measured) = &mut all[index];
                measured.push(measure(*side).await?);
            }
        }
        Ok(PerSide(all))
    }

    /// Adds later rounds of the same sides.
    pub(crate) fn append(&mut self, later: PerSide<T>) {
        for (side, measured) in later.0 {
            if let Some((_, all)) = self.0.iter_mut().find(|(its, _)| *its == side) {
                all.extend(measured);
            }
        }
    }

    /// The median of this side's rounds.
    pub(crate) fn median(&self, side: Side, figure: impl Fn(&T) -> f64) -> f64 {
        Spread::of(self.of(side).iter().map(figure).collect()).median
    }

    /// The figures of this side.
    pub(crate) fn of(&self, side: Side) -> &[T] {
        self.0.iter().find(|(its, _)| *its == side).map_or(&[], |(_, measured)| measured)
    }

    /// Our rounds beside those of a floor.
    pub(crate) fn beside(&self, floor: Side, figure: impl Fn(&T) -> f64) -> Rounds {
        self.compared(Side::Ours, floor, figure)
    }

    /// The rounds of one side beside those of another.
    pub(crate) fn compared(&self, ours: Side, floor: Side, figure: impl Fn(&T) -> f64) -> Rounds {
        let both = self.of(ours).iter().zip(self.of(floor));
        Rounds(both.map(|(o, f)| Round { ours: figure(o), floor: figure(f) }).collect())
    }
}

/// The order of a round, as the indexes of its sides: it rotates every second round, and the round after that has it
/// reversed. So six rounds of three sides have all orders, once each.
fn order(round: usize, sides: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).map(|turn| (round / 2 + turn) % sides).collect();
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::{PerSide, Side, order};

    #[test]
    fn six_rounds_of_three_sides_have_all_orders() {
        let mut orders: Vec<Vec<usize>> = (0..6).map(|round| order(round, 3)).collect();
        orders.sort();
        let all = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        assert_eq!(orders, all);
        assert_eq!(order(6, 3), order(0, 3));
    }

    #[test]
    fn each_of_two_sides_is_as_often_first() {
        let firsts = (0..4).map(|round| order(round, 2)[0]);
        assert_eq!(firsts.collect::<Vec<_>>(), [0, 1, 1, 0]);
    }

    #[tokio::test]
    async fn every_second_round_has_the_reversed_order() {
        let mut order = Vec::new();
        let sides = [Side::Ours, Side::Bare, Side::Recipe];
        let measured = PerSide::measured(2, &sides, async |side: Side| {
            order.push(side);
            Ok(if side == Side::Ours { 3.0 } else { 2.0 })
        });
        let measured = measured.await.unwrap();
        let reversed: Vec<Side> = sides.into_iter().rev().collect();
        assert_eq!((order.len(), &order[3..6], &order[6..]), (9, &sides[..], &reversed[..]));
        assert_eq!(measured.of(Side::Recipe).len(), 2);
        let ratio = measured.beside(Side::Bare, |millis| *millis).ratio();
        assert_eq!(ratio.to_string(), "1.50 (1.50 to 1.50)");
    }

    #[tokio::test]
    async fn later_rounds_are_added_to_their_sides() {
        let mut next = 0.0;
        let mut measure = async |_| {
            next += 1.0;
            Ok(next)
        };
        let sides = [Side::Ours, Side::Bare];
        let mut all = PerSide::without_warm_up(1, &sides, &mut measure).await.unwrap();
        all.append(PerSide::without_warm_up(2, &sides, &mut measure).await.unwrap());
        assert_eq!(all.of(Side::Ours), [1.0, 3.0, 6.0]);
        assert_eq!(all.of(Side::Bare), [2.0, 4.0, 5.0]);
        assert_eq!(all.median(Side::Ours, |figure| *figure).to_string(), "3");
    }
}
