//! Sealed state that a client returns is valid only for its owner, until it expires, and unchanged.

use chrono::{TimeDelta, TimeZone as _, Utc};
use entente_domain::slips::Slip;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_sealed_slip_opens_for_its_owner_alone(
        whose in "[a-z.]{1,20}", other in "[a-z.]{1,20}", about in ".{0,40}", secret in any::<[u8; 32]>(), at in any::<prop::sample::Index>(),
    ) {
        let now = Utc.with_ymd_and_hms(2026, 11, 22, 8, 0, 0).unwrap();
        let slip = Slip { whose: whose.clone(), about, until: now + TimeDelta::seconds(60) };
        let sealed = slip.seal(&secret).unwrap();
        prop_assert_eq!(Slip::open(&sealed, &secret, &whose, now), Some(slip));
        prop_assert_eq!(Slip::open(&sealed, &secret, &whose, now + TimeDelta::seconds(60)), None);
        if other != whose {
            prop_assert_eq!(Slip::open(&sealed, &secret, &other, now), None);
        }
        let mut key = secret;
        key[0] ^= 1;
        prop_assert_eq!(Slip::open(&sealed, &key, &whose, now), None);
        // One character changed anywhere.
        let mut bytes = sealed.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        // The last character of either part may contain unused bits.
        let opened = Slip::open(&changed, &secret, &whose, now);
        prop_assert!(opened.is_none() || at + 1 == changed.len());
    }
}
