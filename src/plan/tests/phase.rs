//! P-100…P-110 as a table.

use crate::plan::phase::{Phase, Stand, phase};
use crate::pod::lifecycle::Role;

const NEW: Stand = Stand::New;
const STARTING: Stand = Stand::Starting;
const STARTED: Stand = Stand::Started;
const AGAIN: Stand = Stand::Again;
const OK: Stand = Stand::Over(0);
const BAD: Stand = Stand::Over(1);

/// Init containers, sidecars, regular ones.
type Row = (&'static [Stand], &'static [Stand], &'static [Stand], Phase);

fn of_row((init, sidecars, regular, _): Row) -> Phase {
    let with = |role: Role, stands: &[Stand]| -> Vec<(Role, Stand)> {
        stands.iter().map(|stand| (role, *stand)).collect()
    };
    let parts = [
        with(Role::Init, init),
        with(Role::Sidecar, sidecars),
        with(Role::Regular, regular),
    ];
    phase(&parts.concat())
}

#[test]
fn the_phase_follows_from_where_the_containers_stand() {
    let rows: [Row; 30] = [
        // P-103, P-104, P-109.
        (&[], &[], &[NEW], Phase::Pending),
        (&[], &[], &[STARTED, NEW], Phase::Pending),
        (&[], &[], &[STARTING], Phase::Running),
        (&[], &[], &[STARTED, STARTED], Phase::Running),
        (&[], &[], &[STARTED, BAD], Phase::Running),
        (&[], &[], &[STARTED, AGAIN], Phase::Running),
        (&[], &[], &[AGAIN], Phase::Running),
        // P-105…P-107.
        (&[], &[], &[AGAIN, BAD], Phase::Running),
        (&[], &[], &[OK, AGAIN], Phase::Running),
        (&[], &[], &[OK, OK], Phase::Succeeded),
        (&[], &[], &[OK, BAD], Phase::Failed),
        // P-100: whatever the others do.
        (&[BAD], &[], &[NEW], Phase::Failed),
        (&[OK, BAD], &[STARTED], &[STARTED], Phase::Failed),
        // P-101.
        (&[NEW], &[], &[NEW], Phase::Pending),
        (&[STARTED], &[], &[NEW], Phase::Pending),
        (&[AGAIN, NEW], &[], &[NEW], Phase::Pending),
        (&[AGAIN], &[], &[NEW], Phase::Pending),
        (&[OK], &[], &[NEW], Phase::Pending),
        (&[OK], &[], &[STARTED], Phase::Running),
        // A new sandbox: it is initialised again, and the regular containers have a history.
        (&[NEW], &[], &[AGAIN], Phase::Pending),
        (&[STARTED], &[AGAIN], &[AGAIN], Phase::Pending),
        // P-102.
        (&[], &[STARTING], &[NEW], Phase::Pending),
        (&[], &[STARTED], &[NEW], Phase::Pending),
        (&[], &[STARTING], &[STARTED], Phase::Running),
        (&[], &[AGAIN], &[STARTED], Phase::Running),
        // P-104: a sidecar alone keeps a pod running; P-110: its exit says nothing.
        (&[OK], &[STARTED], &[OK], Phase::Running),
        (&[OK], &[BAD], &[OK], Phase::Succeeded),
        (&[OK], &[AGAIN], &[OK], Phase::Succeeded),
        (&[OK], &[OK], &[BAD], Phase::Failed),
        (&[], &[NEW], &[STARTED], Phase::Pending),
    ];
    for row in rows {
        assert_eq!(of_row(row), row.3, "{row:?}");
    }
}

/// P-110, for every pod of up to one container of each role: whether a sidecar failed or not is no difference.
#[test]
fn the_exit_code_of_a_sidecar_is_no_difference() {
    let stands = [NEW, STARTING, STARTED, AGAIN, OK, BAD];
    for init in stands {
        for regular in stands {
            let with = |sidecar| {
                phase(&[
                    (Role::Init, init),
                    (Role::Sidecar, sidecar),
                    (Role::Regular, regular),
                ])
            };
            assert_eq!(with(OK), with(BAD), "{init:?} {regular:?}");
        }
    }
}
