//! One slot with a rate under random demand: bursts of jobs of several needs, takeovers, lost turns, live changes. The
//! world checks the promise of the rate at every grant, and that no wake-up is lost.

use crate::support::{Rng, Script};

pub(crate) fn history(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut script = Script::new();
    script.world.paranoid = false;
    let line = |script: &mut Script, text: &str| script.lines(text);
    // As seldom as once in ten minutes, as often as hundreds a second, and rates that divide no microsecond.
    let rate = |rng: &mut Rng| {
        let unit = rng.pick(&["s", "min", "h"]).unwrap();
        format!("slot f 100 rate={}/{unit} burst={}", 1 + rng.below(400), 3 + rng.below(5))
    };
    line(&mut script, &rate(&mut rng));
    line(&mut script, "kind k needs=f:1 lease=1h");
    line(&mut script, "node n1 credits=10000");
    for step in 0..40 {
        match rng.below(100) {
            0..60 => {
                for n in 0..rng.below(8) {
                    line(&mut script, &format!("enqueue j{step}.{n} kind=k needs=f:{}", 1 + rng.below(3)));
                }
                line(&mut script, "tick");
            }
            60..70 => line(&mut script, "reload\nhello n1"),
            70..75 => line(&mut script, "begin\ntick\nlose\nhello n1"),
            75..80 => line(&mut script, &rate(&mut rng)),
            _ => {}
        }
        let length = match rng.below(3) {
            0 => rng.below(2_000_000),
            1 => rng.below(30_000_000),
            _ => 0,
        };
        line(&mut script, &format!("advance {length}us"));
    }
}
