//! Rounds of several sides, whose order rotates.

use mongo_lease_measure::{Outcome, Round, Rounds};

use crate::side::Side;

/// The figures of each side, round by round.
pub(crate) struct PerSide<T>(Vec<(Side, Vec<T>)>);

impl<T> PerSide<T> {
    /// Measures so many rounds of each side, after a round of each that does not count.
    ///
    /// Each round begins with another side, so that none always comes behind the same one.
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
            for turn in 0..sides.len() {
                let (side, measured) = &mut all[(round + turn) % sides.len()];
                measured.push(measure(*side).await?);
            }
        }
        Ok(PerSide(all))
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

#[cfg(test)]
mod tests {
    use super::{PerSide, Side};

    #[tokio::test]
    async fn each_round_begins_with_another_side() {
        let mut order = Vec::new();
        let sides = [Side::Ours, Side::Bare, Side::Recipe];
        let measured = PerSide::measured(2, &sides, async |side: Side| {
            order.push(side);
            Ok(if side == Side::Ours { 3.0 } else { 2.0 })
        });
        let measured = measured.await.unwrap();
        let counted: Vec<Side> = order.iter().skip(3).step_by(3).copied().collect();
        assert_eq!((order.len(), counted), (9, vec![Side::Ours, Side::Bare]));
        assert_eq!(measured.of(Side::Recipe).len(), 2);
        let ratio = measured.beside(Side::Bare, |millis| *millis).ratio();
        assert_eq!(ratio.to_string(), "1.50 (1.50 to 1.50)");
    }
}
