//! Receipts: enum values parse as they are written, and a stored receipt is read back equal.

use entente_domain::aee::envelopes::receipt::{Receipt, ReceiptStatus, Verified, Voucher};
use entente_domain::aee::envelopes::signing::Scope;
use entente_domain::aee::envelopes::{Priority, Warning};
use proptest::prelude::*;
use serde_json::json;

use crate::any;

#[test]
fn vouchers_are_written_as_they_are_read() {
    for voucher in [Voucher::Sig, Voucher::Token, Voucher::Gateway] {
        assert_eq!(Voucher::parse(voucher.as_str()), Some(voucher));
        assert_eq!(json!(voucher), voucher.as_str());
    }
    assert_eq!(Voucher::parse("none"), None);
}

proptest! {
    #[test]
    fn a_receipt_comes_back_as_it_was(
        at in any::moment(), deadline in proptest::option::of(any::moment()), seq in proptest::option::of(any::<i64>()),
        kid in proptest::option::of("[a-z]{1,4}"), delivered: i32,
        scope in prop_oneof![Just(Scope::Core), Just(Scope::Whole)],
    ) {
        let receipt = Receipt {
            id: "01JFB2R1JZKQ9V3K8W8Y9W1F2A".to_owned(),
            status: ReceiptStatus::Accepted,
            received_at: at,
            seq,
            delivered,
            effective_priority: Priority::High,
            deadline,
            verified: kid.map_or(Verified::by(Voucher::Token), |kid| Verified::signed(kid, scope)),
            warnings: Warning::ALL.to_vec(),
        };
        let text = serde_json::to_string(&receipt).unwrap();
        prop_assert!(!text.contains(":null"));
        prop_assert_eq!(serde_json::from_str::<Receipt>(&text).unwrap(), receipt);
    }
}
