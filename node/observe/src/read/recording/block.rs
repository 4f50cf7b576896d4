// SPDX-License-Identifier: GPL-2.0-only
//! The throttle's events of a round, packed: they are nearly all there is in a recording of many
//! writers.
//!
//! Rows of numbers, each row the difference to the one above, which is short and often the same
//! again. Example: two pauses on 254:0, 1.2 ms apart, by tasks 412 and 409, whose domain held 7,300
//! pages and then 7,302:
//!
//! ```text
//! {"texts":["254:0"],"woke":[],"decided":[],
//!  "pauses":[[81203456000,412,0,77,8192,7168,7300,...],[1200000,-3,0,0,0,0,2,...]]}
//! ```
//!
//! Of events at one time a wake-up comes first: who looks again after a pause wakes and then
//! passes.

use crate::model::event::{Event, Pause, What};
use serde::{Deserialize, Serialize};

/// See above. The first two numbers of each row are its time and its task.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Block {
    /// Texts of devices and domains; rows have places in it.
    texts: Vec<String>,
    woke: Vec<[i64; 2]>,
    decided: Vec<[i64; 3]>,
    pauses: Vec<[i64; 14]>,
}

impl Block {
    /// Packs an event, unless it is none of the throttle's.
    pub fn take_event(&mut self, event: &Event) -> bool {
        let (ns, task) = (event.ns as i64, event.task.into());
        match &event.what {
            What::Woke => self.woke.push([ns, task]),
            What::DecidedBy(by) => {
                let by = self.place_of(by);
                self.decided.push([ns, task, by]);
            }
            What::Pause(pause) => {
                let bdi = self.place_of(&pause.bdi);
                self.pauses.push([
                    ns,
                    task,
                    bdi,
                    pause.cgroup as i64,
                    pause.limit as i64,
                    pause.setpoint as i64,
                    pause.dirty as i64,
                    pause.bdi_setpoint as i64,
                    pause.bdi_dirty as i64,
                    pause.dirty_ratelimit as i64,
                    pause.task_ratelimit as i64,
                    pause.dirtied as i64,
                    pause.pause_ms,
                    pause.period_ms as i64,
                ]);
            }
            _ => return false,
        }
        true
    }

    pub fn is_empty(&self) -> bool {
        self.woke.is_empty() && self.decided.is_empty() && self.pauses.is_empty()
    }

    /// To be written: rows become differences.
    pub fn close(mut self) -> Block {
        to_differences(&mut self.woke);
        to_differences(&mut self.decided);
        to_differences(&mut self.pauses);
        self
    }

    /// Events of a written one; none if it is damaged.
    pub fn unpack_events(mut self) -> Option<Vec<Event>> {
        add_up(&mut self.woke);
        add_up(&mut self.decided);
        add_up(&mut self.pauses);
        let text = |place: i64| self.texts.get(usize::try_from(place).ok()?).cloned();
        let event = |ns: i64, task: i64, what: What| {
            Some(Event {
                ns: ns as u64,
                task: u32::try_from(task).ok()?,
                what,
            })
        };
        let woke = self
            .woke
            .iter()
            .map(|[ns, task]| event(*ns, *task, What::Woke));
        let decided = self
            .decided
            .iter()
            .map(|[ns, task, by]| event(*ns, *task, What::DecidedBy(text(*by)?)));
        let pauses = self.pauses.iter().map(|row| {
            let [ns, task, bdi, rest @ ..] = row;
            let [cgroup, limit, setpoint, dirty, rest @ ..] = rest.map(|number| number as u64);
            let [
                bdi_setpoint,
                bdi_dirty,
                base,
                rate,
                dirtied,
                pause_ms,
                period_ms,
            ] = rest;
            let pause = Pause {
                bdi: text(*bdi)?,
                cgroup,
                limit,
                setpoint,
                dirty,
                bdi_setpoint,
                bdi_dirty,
                dirty_ratelimit: base,
                task_ratelimit: rate,
                dirtied,
                pause_ms: pause_ms as i64,
                period_ms,
            };
            event(*ns, *task, What::Pause(pause))
        });
        woke.chain(decided).chain(pauses).collect()
    }

    fn place_of(&mut self, text: &str) -> i64 {
        let known = self.texts.iter().position(|known| known == text);
        known.unwrap_or_else(|| {
            self.texts.push(text.into());
            self.texts.len() - 1
        }) as i64
    }
}

fn to_differences<const N: usize>(rows: &mut [[i64; N]]) {
    for at in (1..rows.len()).rev() {
        let above = rows[at - 1];
        for (number, before) in rows[at].iter_mut().zip(above) {
            *number = number.wrapping_sub(before);
        }
    }
}

fn add_up<const N: usize>(rows: &mut [[i64; N]]) {
    for at in 1..rows.len() {
        let above = rows[at - 1];
        for (number, before) in rows[at].iter_mut().zip(above) {
            *number = number.wrapping_add(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pause() -> impl Strategy<Value = Pause> {
        (any::<bool>(), any::<[u64; 10]>(), any::<i64>()).prop_map(|(other, n, pause_ms)| Pause {
            bdi: if other { "8:0" } else { "254:16" }.into(),
            cgroup: n[0],
            limit: n[1],
            setpoint: n[2],
            dirty: n[3],
            bdi_setpoint: n[4],
            bdi_dirty: n[5],
            dirty_ratelimit: n[6],
            task_ratelimit: n[7],
            dirtied: n[8],
            pause_ms,
            period_ms: n[9],
        })
    }

    fn event() -> impl Strategy<Value = Event> {
        let what = prop_oneof![
            Just(What::Woke),
            Just(What::DecidedBy("ceiling".into())),
            pause().prop_map(What::Pause),
        ];
        (any::<u64>(), any::<u32>(), what).prop_map(|(ns, task, what)| Event { ns, task, what })
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(events in proptest::collection::vec(event(), 0..40)) {
            let mut block = Block::default();
            prop_assert!(events.iter().all(|event| block.take_event(event)));
            prop_assert_eq!(block.is_empty(), events.is_empty());
            let text = serde_json::to_string(&block.close()).expect("encoded");
            let read: Block = serde_json::from_str(&text).expect("decoded");
            // Each kind keeps its order.
            let rank = |event: &Event| match event.what {
                What::Woke => 0,
                What::DecidedBy(_) => 1,
                _ => 2,
            };
            let mut wanted = events;
            wanted.sort_by_key(rank);
            prop_assert_eq!(read.unpack_events().expect("whole"), wanted);
        }
    }

    #[test]
    fn others_are_left_to_others() {
        let event = Event {
            ns: 1,
            task: 2,
            what: What::SyncBegan,
        };
        assert!(!Block::default().take_event(&event));
    }

    #[test]
    fn a_row_that_names_no_device_is_damaged() {
        for text in [
            r#"{"texts":[],"woke":[],"decided":[[5,1,0]],"pauses":[]}"#,
            r#"{"texts":["8:0"],"woke":[],"decided":[],"pauses":[[5,1,-1,0,0,0,0,0,0,0,0,0,0,0]]}"#,
            r#"{"texts":[],"woke":[[5,-1]],"decided":[],"pauses":[]}"#,
        ] {
            let block: Block = serde_json::from_str(text).expect("decoded");
            assert_eq!(block.unpack_events(), None, "{text}");
        }
    }
}
