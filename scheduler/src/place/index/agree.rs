//! Whether the index says what the state says: checked after every step of every test.

use crate::{
    place::{ClassId, classes::Class, fit, fit::Nearness},
    state::State,
    time::Now,
};

impl State {
    /// What the index and a walk over all nodes differ in, one line each; none is the only good answer. What the index
    /// leaves out must not fit, the reason that it finds must be as near to a fit as any, and a class that waits for the
    /// nodes must fit on none but those that gained.
    #[must_use]
    pub fn check_index(&self, now: Now) -> Vec<String> {
        let mut found = Vec::new();
        for (id, class) in self.classes.iter() {
            let mut differs = |text: String| found.push(format!("{id} ({}): {text}", class.key.text()));
            let asks = self.head_asks(now, id, class);
            let offered: Vec<u32> = self.index.fitting(class, 0).collect();
            for (name, node) in self.nodes.iter() {
                let fits = fit::of_node(self, now, id, class, asks, node).is_ok();
                let is_offered = self.nodes.handle(name).is_some_and(|handle| offered.contains(&handle));
                if fits && !is_offered {
                    differs(format!("fits on {name}, which is not offered"));
                }
                if fits && self.waits_for_nodes(class) && !self.gained.contains(name) {
                    differs(format!("waits for nodes and fits on {name}"));
                }
            }
            if let Some(text) = self.reason_differs(now, id, class) {
                differs(text);
            }
        }
        found
    }

    fn waits_for_nodes(&self, class: &Class) -> bool {
        let failed = class.failed.as_ref().is_some_and(|failed| !failed.reason.is_of_fleet());
        failed && !class.queue.is_empty()
    }

    fn reason_differs(&self, now: Now, id: ClassId, class: &Class) -> Option<String> {
        let asks = self.head_asks(now, id, class);
        fit::of_fleet(self, now, class, asks).ok()?;
        let all = self.nodes.values().map(|node| fit::of_node(self, now, id, class, asks, node).err());
        let all =
            all.map(|reason| reason.map(|reason| fit::nearness(&reason))).collect::<Option<Vec<_>>>()?;
        let nearest = all.into_iter().max().unwrap_or((Nearness::NoMatch, 0));
        let said = fit::why_not(self, now, id, class, asks).found;
        let warming =
            !self.warm && nearest.0 == Nearness::NoMatch && fit::nearness(&said).0 == Nearness::WarmingUp;
        (fit::nearness(&said) != nearest && !warming)
            .then(|| format!("says {said}, the nearest is {nearest:?}"))
    }
}
