//! The effect of CUDA_VISIBLE_DEVICES, a list of ordinals and UUIDs: CUDA shows the devices before the first unknown
//! name (CUDA programming guide, "CUDA environment variables"). An empty list, `-1` and similar values show none.

use super::super::Finding;
use super::Nvidia;

impl Nvidia {
    pub(super) fn visible_findings(&self) -> Vec<Finding> {
        const UNSET: &str = "unset CUDA_VISIBLE_DEVICES, or let it name cards that `nvidia-smi -L` lists";
        let Some(value) = self.visible_devices.as_deref() else { return Vec::new() };
        let ids = self.known_uuids();
        // Unless the driver tells which cards there are, nobody knows which are hidden.
        let Some(count) = self.card_count() else { return Vec::new() };
        let names: Vec<&str> = value.split(',').map(str::trim).collect();
        let unknown = names.iter().position(|name| !exists(name, count, &ids));
        let finding = match unknown {
            Some(0) if value.trim().is_empty() || names[0].starts_with('-') || names[0] == "NoDevFiles" => {
                Finding::warning(format!("CUDA_VISIBLE_DEVICES is `{value}`, which hides every card from CUDA"), UNSET)
            }
            Some(0) => Finding::error(
                format!("CUDA_VISIBLE_DEVICES is `{value}`, but there is no card `{}`: {}", names[0], there_is(count)),
                UNSET,
            ),
            Some(at) if !names[at].starts_with('-') => Finding::error(
                format!(
                    "CUDA_VISIBLE_DEVICES is `{value}`, but there is no card `{}` ({}), so only the {at} named before \
                     can be seen",
                    names[at],
                    there_is(count)
                ),
                UNSET,
            ),
            _ => Finding::note(
                format!("CUDA_VISIBLE_DEVICES is `{value}`: CUDA shows only these cards"),
                "unset CUDA_VISIBLE_DEVICES to see every card",
            ),
        };
        vec![finding]
    }

    /// Whether CUDA_VISIBLE_DEVICES hides every card, by intention or mistake.
    pub(super) fn all_hidden(&self) -> bool {
        let (Some(value), Some(count)) = (self.visible_devices.as_deref(), self.card_count()) else { return false };
        let first = value.split(',').next().unwrap_or_default().trim();
        !exists(first, count, &self.known_uuids())
    }

    /// Number of the driver's cards, hidden or not.
    fn card_count(&self) -> Option<usize> {
        match self.management.cards.len() {
            0 => Some(self.kernel.uuids.len()).filter(|&count| count > 0),
            count => Some(count),
        }
    }

    /// UUIDs of cards and slices; `None` when not all are known.
    fn known_uuids(&self) -> Option<Vec<String>> {
        if self.management.cards.is_empty() {
            // The kernel driver names cards, not slices.
            return None;
        }
        let mut ids = Vec::new();
        for card in &self.management.cards {
            ids.push(card.uuid.clone()?);
            ids.extend(card.slices.iter().flatten().cloned());
        }
        Some(ids)
    }
}

fn there_is(count: usize) -> String {
    match count {
        1 => "there is one card, 0".to_owned(),
        count => format!("there are {count} cards, 0 to {}", count - 1),
    }
}

/// Whether a name in the list is one of `count` cards or, as far as these are known, of `ids`.
fn exists(name: &str, count: usize, ids: &Option<Vec<String>>) -> bool {
    if let Ok(ordinal) = name.parse::<usize>() {
        return ordinal < count;
    }
    // `MIG-GPU-<uuid>/<gpu instance>/<compute instance>` is the older spelling of a slice; NVML gives the newer one.
    if name.starts_with("MIG-GPU-") {
        return true;
    }
    let uuid = name.starts_with("GPU-") || name.starts_with("MIG-");
    // The beginning of a UUID suffices if only one UUID has it.
    uuid && ids.as_ref().is_none_or(|ids| ids.iter().filter(|id| id.starts_with(name)).count() == 1)
}

#[cfg(test)]
mod tests {
    use super::super::super::Severity;
    use super::super::made_up::{found, only, state, well};
    use super::*;

    fn set(value: &str) -> Nvidia {
        let mut machine = well();
        let second = super::super::nvml::State {
            uuid: Some("GPU-bbbb".to_owned()),
            slices: Some(vec!["MIG-cccc".to_owned()]),
            ..state()
        };
        machine.management.cards.push(second);
        machine.visible_devices = Some(value.to_owned());
        machine
    }

    fn hidden(value: &str) -> Nvidia {
        Nvidia { cards: Vec::new(), ..set(value) }
    }

    #[test]
    fn hiding_every_card_is_a_warning() {
        for value in ["", "-1", " -1", "-1,0", "NoDevFiles"] {
            let machine = hidden(value);
            assert!(machine.all_hidden());
            assert_eq!(only(&found(&machine), "hides every card", "unset"), Severity::Warning, "{value}");
        }
    }

    #[test]
    fn naming_no_card_is_an_error() {
        for value in ["2", "GPU-ffff", "MIG-ffff", "nonsense", "GPU-,0", "2,0"] {
            let machine = hidden(value);
            assert!(machine.all_hidden());
            let name = value.split(',').next().unwrap_or_default();
            let what = format!("there is no card `{name}`: there are 2 cards, 0 to 1");
            assert_eq!(only(&found(&machine), &what, "nvidia-smi -L"), Severity::Error, "{value}");
        }
        assert_eq!(only(&found(&set("0,7")), "only the 1 named before", "nvidia-smi -L"), Severity::Error);
    }

    #[test]
    fn naming_cards_is_a_note() {
        for value in ["0", "1,0", "GPU-aaaa", "GPU-b", "MIG-cccc", "MIG-GPU-bbbb/1/0", "0,-1"] {
            let machine = set(value);
            assert!(!machine.all_hidden());
            assert_eq!(only(&found(&machine), "shows only these", "unset"), Severity::Note, "{value}");
        }
    }

    #[test]
    fn without_management_library_ordinals_are_still_known() {
        let mut machine = hidden("3");
        machine.management.cards.clear();
        assert_eq!(only(&found(&machine), "there is no card `3`: there is one card, 0", "unset"), Severity::Error);
        let machine = Nvidia { visible_devices: Some("GPU-ffff".to_owned()), ..machine };
        assert!(!machine.all_hidden(), "slices are not known");
    }

    #[test]
    fn on_a_machine_without_cards_the_variable_is_not_mentioned() {
        let machine = Nvidia { looked: true, visible_devices: Some("5".to_owned()), ..Nvidia::default() };
        assert!(found(&machine).iter().all(|finding| !finding.what.contains("CUDA_VISIBLE_DEVICES")));
    }
}
