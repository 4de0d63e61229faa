//! Interactions.

use muster_domain::{Fault, interaction::Interaction};

use super::{enums, id, time};
use crate::public;

impl From<&Interaction> for public::Interaction {
    fn from(interaction: &Interaction) -> Self {
        Self {
            id: interaction.id.to_string(),
            session_id: interaction.session.to_string(),
            kind: enums::number::<public::InteractionKind>(interaction.kind),
            state: enums::number::<public::InteractionState>(interaction.state),
            cli_request_id: interaction.cli_request.clone(),
            agent: interaction.agent.clone(),
            tool: interaction.tool.clone(),
            input_summary: interaction.summary.clone(),
            asked_at: Some(time::timestamp(interaction.asked_at)),
            expires_at: time::timestamp_opt(interaction.expires_at),
            answer: interaction.answer.clone().unwrap_or_default(),
            answered_by: interaction.answered_by.clone().unwrap_or_default(),
        }
    }
}

impl TryFrom<public::Interaction> for Interaction {
    type Error = Fault;

    fn try_from(wire: public::Interaction) -> Result<Self, Fault> {
        Ok(Self {
            id: id::id("id", &wire.id)?,
            session: id::id("session_id", &wire.session_id)?,
            kind: enums::required::<public::InteractionKind, _>("kind", wire.kind)?,
            state: enums::required::<public::InteractionState, _>("state", wire.state)?,
            cli_request: wire.cli_request_id,
            agent: wire.agent,
            tool: wire.tool,
            summary: wire.input_summary,
            asked_at: time::from_timestamp("asked_at", wire.asked_at.as_ref())?,
            expires_at: time::from_timestamp_opt("expires_at", wire.expires_at.as_ref())?,
            answer: id::text_opt(wire.answer),
            answered_by: id::text_opt(wire.answered_by),
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{
        Timestamp,
        interaction::{Kind, State},
    };
    use proptest::prelude::*;

    use super::*;

    fn interactions() -> impl Strategy<Value = Interaction> {
        let kinds = prop_oneof![
            Just(Kind::Permission),
            Just(Kind::Question),
            Just(Kind::Plan)
        ];
        let states = prop_oneof![Just(State::Open), Just(State::Answered), Just(State::Lost)];
        let at = || (0..4_000_000_000_000_000_i64).prop_map(Timestamp::from_micros);
        (
            (kinds, states, ".{0,8}", ".{0,8}"),
            (".{0,8}", ".{0,8}", at(), proptest::option::of(at())),
            proptest::option::of(".{1,8}"),
            proptest::option::of(".{1,8}"),
        )
            .prop_map(
                |((kind, state, request, agent), (tool, summary, asked, expires), answer, by)| {
                    Interaction {
                        id: "0190b5d4-6a3e-7c11-9a2b-0123456789ab".parse().unwrap(),
                        session: "0190b5d4-6a3e-7c11-9a2b-0123456789ac".parse().unwrap(),
                        kind,
                        state,
                        cli_request: request,
                        agent,
                        tool,
                        summary,
                        asked_at: asked,
                        expires_at: expires,
                        answer,
                        answered_by: by,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn interactions_come_back(interaction in interactions()) {
            let wire = public::Interaction::from(&interaction);
            prop_assert_eq!(Interaction::try_from(wire), Ok(interaction));
        }
    }
}
