//! What became of every item and every received message, as counts that add up.

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of items and received messages.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Every count with its name, in the order of the fields.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Adds `other`.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// What was added since `earlier`.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }
    };
}

counts! {
    /// Items whose intended time came.
    scheduled,
    /// Items that were never sent because no ID had rested long enough, the run was stopped, or it was
    /// over before they could be sent.
    skipped,
    /// Of the skipped items: those that the generator had not sent by the end of the run.
    overdue,
    /// Items that the operating system refused to send.
    send_errors,
    /// Items sent.
    sent,
    /// Sent items answered within the timeout.
    answered,
    /// Sent items that were not.
    timed_out,
    /// Sent items that an ICMP message said no process listens to.
    refused,
    /// Sent items whose connection ended before the answer.
    connection_failed,
    /// Sent items still in flight when the run was interrupted.
    interrupted,
    /// Messages received.
    received,
    /// Messages that answer an item after it had timed out, within the window for late answers.
    late,
    /// Messages that answer an item again.
    duplicate,
    /// Messages with a known ID that are no response or have another question.
    mismatched,
    /// Messages with an ID that nothing was asked with, or whose item had failed already, or was
    /// asked longer ago than the window for late answers.
    unknown,
    /// Messages too short to have a header and a question.
    malformed,
    /// Of the mismatched messages: those without the QR bit.
    not_responses,
    /// Answers with the TC bit.
    truncated,
    /// Answers without an error and without a record in the answer section.
    empty,
    /// Answers with an error and without a question section.
    without_question,
    /// Octets of answers.
    answer_octets,
    /// Octets of the items sent.
    question_octets,
}

impl Counts {
    /// Sent items without an answer in time, whatever the cause; interrupted ones are not among them.
    pub fn lost(&self) -> u64 {
        self.timed_out + self.refused + self.connection_failed
    }

    /// Sent items without an outcome yet.
    pub fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.answered + self.lost() + self.interrupted)
    }
}

/// How often each RCODE came, in the order of the codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rcodes(Vec<(u16, u64)>);

impl Rcodes {
    /// Counts an answer with `rcode`, which has the extension of EDNS (RFC 6891 section 6.1.3).
    pub fn add(&mut self, rcode: u16, count: u64) {
        match self.0.binary_search_by_key(&rcode, |entry| entry.0) {
            Ok(at) => {
                if let Some(entry) = self.0.get_mut(at) {
                    entry.1 += count;
                }
            }
            Err(at) => self.0.insert(at, (rcode, count)),
        }
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(rcode, count)| self.add(rcode, count));
    }

    /// How many answers had `rcode`.
    pub fn get(&self, rcode: u16) -> u64 {
        self.iter().find(|entry| entry.0 == rcode).map_or(0, |entry| entry.1)
    }

    /// The RCODEs that came, lowest first, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.0.iter().copied()
    }

    /// All answers.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|entry| entry.1).sum()
    }
}
