//! Egress: the edges of every blocked range, and every notation of an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use entente_domain::egress::{Allowed, CLOSED, Fault, Range, closed, judge};
use entente_domain::limits::URL_BYTES;
use proptest::prelude::*;

/// The first and last address of each range, as the registries list them; the test adds one address beyond each
/// end.
const EDGES: &[(&str, &str)] = &[
    ("0.0.0.0", "0.255.255.255"),
    ("10.0.0.0", "10.255.255.255"),
    ("100.64.0.0", "100.127.255.255"),
    ("127.0.0.0", "127.255.255.255"),
    ("168.63.129.16", "168.63.129.16"),
    ("169.254.0.0", "169.254.255.255"),
    ("172.16.0.0", "172.31.255.255"),
    ("192.0.0.0", "192.0.0.255"),
    ("192.0.2.0", "192.0.2.255"),
    ("192.88.99.0", "192.88.99.255"),
    ("192.168.0.0", "192.168.255.255"),
    ("198.18.0.0", "198.19.255.255"),
    ("198.51.100.0", "198.51.100.255"),
    ("203.0.113.0", "203.0.113.255"),
    ("224.0.0.0", "239.255.255.255"),
    ("240.0.0.0", "255.255.255.255"),
    ("::", "::ffff:ffff"),
    ("64:ff9b::", "64:ff9b::ffff:ffff"),
    ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    ("100::", "100::ffff:ffff:ffff:ffff"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("4000::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("8000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
];

fn moved(address: IpAddr, by: i8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) => {
            a.to_bits().checked_add_signed(by.into()).map(|bits| Ipv4Addr::from_bits(bits).into())
        }
        IpAddr::V6(a) => {
            a.to_bits().checked_add_signed(by.into()).map(|bits| Ipv6Addr::from_bits(bits).into())
        }
    }
}

#[test]
fn every_range_is_closed_from_its_first_to_its_last_address() {
    assert_eq!(EDGES.len(), CLOSED.len(), "a range without its edges");
    let within: Vec<(IpAddr, IpAddr)> =
        EDGES.iter().map(|(first, last)| (first.parse().unwrap(), last.parse().unwrap())).collect();
    let listed = |a: IpAddr| within.iter().any(|(f, l)| f.is_ipv4() == a.is_ipv4() && *f <= a && a <= *l);
    for ((first, last), (range, why)) in within.iter().zip(CLOSED) {
        for address in [*first, *last] {
            assert!(range.contains(address) && closed(address).is_some(), "{address} ({why})");
        }
        for outside in [moved(*first, -1), moved(*last, 1)].into_iter().flatten() {
            assert!(!range.contains(outside), "{outside} is outside of {first} to {last}");
            let mapped = matches!(outside, IpAddr::V6(a) if a.to_ipv4_mapped().is_some());
            assert!(mapped || closed(outside).is_some() == listed(outside), "{outside}");
        }
    }
}

#[test]
fn the_public_internet_is_open() {
    for address in
        ["1.1.1.1", "9.255.255.255", "93.184.216.34", "172.32.0.1", "192.167.0.1", "223.255.255.255"]
    {
        assert_eq!(closed(address.parse().unwrap()), None, "{address}");
    }
    for address in ["2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2600::"] {
        assert_eq!(closed(address.parse().unwrap()), None, "{address}");
    }
}

#[test]
fn a_url_is_judged_by_what_it_says() {
    let none = Allowed::default();
    let fault = |text: &str| judge(text, &none, false).err();
    // Every notation of the local machine, including forms that only old parsers accept.
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "0",
        "[::]",
        "%31%32%37.0.0.1",
        "127。0。0。1",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::ffff:0:127.0.0.1]",
        "10.1.2.3",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ] {
        let found = fault(&format!("http://{host}:8080/hook"));
        assert!(matches!(found, Some(Fault::Closed(_))), "{host}: {found:?}");
    }
    for text in ["https://hooks.example/in?x=1", "http://93.184.216.34/", "https://[2606:4700::1111]:8443/"] {
        assert_eq!(fault(text), None, "{text}");
    }
    for text in [
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "hooks.example",
        "",
        "//hooks.example",
        "http://",
        "javascript:1",
    ] {
        assert_eq!(fault(text), Some(Fault::NoUrl), "{text}");
    }
    assert_eq!(fault("https://user@hooks.example/"), Some(Fault::Userinfo));
    assert_eq!(fault("https://:pass@hooks.example/"), Some(Fault::Userinfo));
    for port in [0, 22, 25, 81, 1023] {
        assert_eq!(fault(&format!("http://hooks.example:{port}/")), Some(Fault::Port), "{port}");
    }
    assert_eq!(fault(&format!("https://hooks.example/{}", "x".repeat(URL_BYTES))), Some(Fault::TooLong));
    assert_eq!(judge("http://hooks.example/", &none, true).err(), Some(Fault::NotHttps));
    assert_eq!(judge("https://hooks.example/", &none, true).err(), None);
}

#[test]
fn only_what_the_operator_names_is_exempt() {
    let allowed: Allowed = "10.1.0.0/16, fd00::/8,hooks.internal".parse().unwrap();
    let open = |text: &str| judge(text, &allowed, false).is_ok();
    assert!(open("http://10.1.255.255:9000/") && !open("http://10.2.0.0:9000/"));
    assert!(open("http://[fd12::1]/") && !open("http://[fc00::1]/"));
    assert!(open("http://[::ffff:10.1.0.1]/"), "the same address written otherwise");
    assert!(open("http://HOOKS.internal.:25/") && allowed.names("hooks.internal"));
    assert!(!open("http://127.0.0.1/") && !allowed.names("other.internal"));
    let here = Allowed::loopback().and(allowed);
    assert!(judge("http://localhost:1/", &here, false) == Err(Fault::Port));
    assert!(judge("http://localhost:8080/", &here, false).is_ok() && here.admits("::1".parse().unwrap()));
    for text in ["10.0.0.0/33", "fd00::/129", "10.0.0/8", "a b", "/8", "*"] {
        assert_eq!(text.parse::<Allowed>(), Err(()), "{text}");
    }
    assert_eq!("".parse::<Allowed>(), Ok(Allowed::default()));
}

proptest! {
    #[test]
    fn an_address_is_closed_however_it_is_written(bits in any::<u32>()) {
        let plain = Ipv4Addr::from_bits(bits);
        let mapped = IpAddr::V6(plain.to_ipv6_mapped());
        prop_assert_eq!(closed(IpAddr::V4(plain)), closed(mapped));
        let none = Allowed::default();
        for text in [format!("http://{plain}/"), format!("http://[{mapped}]/"), format!("http://{bits}/")] {
            prop_assert_eq!(judge(&text, &none, false).is_ok(), closed(IpAddr::V4(plain)).is_none(), "{}", text);
        }
    }

    #[test]
    fn a_range_has_what_shares_its_bits(first in any::<u128>(), other in any::<u128>(), bits in 0_u8..=128) {
        let (a, b) = (Ipv6Addr::from_bits(first), Ipv6Addr::from_bits(other));
        let range: Range = format!("{a}/{bits}").parse().unwrap();
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        prop_assert_eq!(range.contains(b.into()), first & mask == other & mask);
        prop_assert!(range.contains(a.into()));
        prop_assert!(!range.contains(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn no_text_is_judged_with_a_panic(text in any::<String>()) {
        let _judged = judge(&text, &Allowed::default(), false);
        let _read: Result<Allowed, ()> = text.parse();
    }
}
