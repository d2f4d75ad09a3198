//! Configuration: `.env.example` documents the variables that `src/config.rs` reads, with their defaults, and an
//! invalid value is refused with its variable's name.

use std::collections::BTreeSet;

use entente::config::{Config, sinks};

/// Returns the variables that `.env.example` documents: `NAME=value` and `# NAME=value`.
fn documented() -> Vec<(String, String)> {
    let lines = include_str!("../../../../.env.example").lines();
    let pairs = lines.filter_map(|line| line.trim_start_matches("# ").split_once('='));
    let named = pairs
        .filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
    named.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the variables that the code reads.
fn read() -> BTreeSet<String> {
    let asked = std::sync::Mutex::new(BTreeSet::new());
    Config::read(&|name| {
        asked.lock().unwrap().insert(name.to_owned());
        None
    })
    .unwrap();
    asked.into_inner().unwrap()
}

#[test]
fn every_variable_is_documented_and_no_other() {
    let documented: BTreeSet<String> = documented().into_iter().map(|(name, _)| name).collect();
    assert_eq!(documented, read());
}

#[test]
fn the_documented_values_are_the_defaults() {
    let example = include_str!("../../../../.env.example");
    let set: Vec<(String, String)> = documented()
        .into_iter()
        .filter(|(name, _)| example.lines().any(|line| line.starts_with(&format!("{name}="))))
        .collect();
    let from_example =
        Config::read(&|name| set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()));
    let defaults = Config::read(&|_| None);
    assert_eq!(format!("{:?}", from_example.unwrap()), format!("{:?}", defaults.unwrap()));
}

#[test]
fn a_bad_value_is_refused_with_its_name() {
    let bad = [
        ("ENTENTE_BIND", "everywhere"),
        ("ENTENTE_WORKERS", "0"),
        ("ENTENTE_LOG_FORMAT", "xml"),
        ("ENTENTE_RATE_PER_SECOND", "-1"),
        ("ENTENTE_MAX_BODY_BYTES", "lots"),
        ("ENTENTE_STRICT_RFC0021", "yes please"),
        ("ENTENTE_COMMIT_WRITERS", "0"),
        ("ENTENTE_AUDIT_EVENT_TYPE", "something"),
        ("ENTENTE_AEE_OPAQUE_SIGNATURES", "true"),
    ];
    let all =
        Config::read(&|name| bad.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned()));
    let said = all.unwrap_err().to_string();
    for (name, value) in bad {
        assert!(said.contains(&format!("{name}={value}: must be ")), "{said}");
        let one = Config::read(&|asked| (asked == name).then(|| value.to_owned()));
        assert!(one.unwrap_err().to_string().contains(name));
    }
}

#[test]
fn a_first_key_comes_from_one_place_and_is_named_nowhere() {
    let judged = |settings: &'static [(&str, &str)]| {
        let get =
            move |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        Config::read(&get).map(|config| format!("{config:?}")).map_err(|fault| fault.to_string())
    };
    let said = judged(&[("ENTENTE_BOOTSTRAP_KEY", "a password")]).unwrap_err();
    assert!(said.contains("ENTENTE_BOOTSTRAP_KEY") && !said.contains("a password"), "{said}");
    let both = judged(&[("ENTENTE_BOOTSTRAP_KEY", "a password"), ("ENTENTE_BOOTSTRAP_KEY_FILE", "/a/file")]);
    assert!(both.unwrap_err().contains("not both"));
    assert!(judged(&[("ENTENTE_BOOTSTRAP_KEY_FILE", "/a/file")]).is_ok());
}

#[test]
fn the_length_of_a_secret_of_tokens_is_judged_apart() {
    let judged = |secret: Option<&'static str>| {
        let config = Config::read(&move |name| {
            secret.filter(|_| name == "ENTENTE_ARCP_TOKEN_SECRET").map(str::to_owned)
        });
        config.unwrap().check_token_secret().map_err(|short| short.to_string())
    };
    assert_eq!(judged(None), Ok(()));
    assert_eq!(judged(Some("sixteen letters!")), Ok(()));
    let said = judged(Some("fifteen letters")).unwrap_err();
    assert!(said.contains("ENTENTE_ARCP_TOKEN_SECRET: must have at least 16 characters"), "{said}");
    assert!(!said.contains("fifteen"), "{said}");
}

#[test]
fn a_secret_is_in_no_complaint() {
    let read = |secret: &'static str| {
        Config::read(&move |name| (name == "ENTENTE_SIGNING_KEY").then(|| secret.to_owned()))
    };
    let said = read("correct horse battery staple").unwrap_err().to_string();
    assert!(said.contains("ENTENTE_SIGNING_KEY: must be 32 bytes"), "{said}");
    assert!(!said.contains("horse"), "{said}");
    let config = format!("{:?}", read("CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=").unwrap());
    assert!(config.contains("signing_key: Some(Signer(did:key:z6Mk"), "{config}");
    assert!(!config.contains("CQkJ"), "{config}");
}

#[test]
fn a_provider_of_accounts_is_set_as_a_whole() {
    let set = [
        ("ENTENTE_PUBLIC_URL", "https://Entente.example.com/"),
        ("ENTENTE_OIDC_ISSUER", "https://login.example.com/realms/a"),
        ("ENTENTE_OIDC_CLIENT_ID", "entente"),
        ("ENTENTE_OIDC_CLIENT_SECRET", "correct horse"),
        ("ENTENTE_OIDC_SCOPES", "openid profile, groups"),
        ("ENTENTE_OIDC_TEAMS", "cn=eng=team.eng, ops ,eng=team.all"),
    ];
    let read = |name: &str, value: &str| {
        let given = |asked: &str| {
            let found = set.iter().find(|(known, _)| *known == asked).map(|(_, value)| *value);
            if asked == name { Some(value).filter(|value| !value.is_empty()) } else { found }
                .map(str::to_owned)
        };
        Config::read(&given).map_err(|fault| fault.to_string())
    };
    let config = read("", "").unwrap();
    assert!(!format!("{config:?}").contains("horse"), "the secret is shown");
    let provider = config.provider.unwrap();
    assert_eq!(provider.settings.redirect, "https://entente.example.com/login/provider/callback");
    assert_eq!(provider.settings.scopes, ["profile", "groups"]);
    assert_eq!(provider.policy.principal, "human.{claim}");
    let teams: Vec<&str> = provider.policy.teams.keys().map(String::as_str).collect();
    assert_eq!(teams, ["cn=eng", "eng", "ops"]);
    for (name, value, told) in [
        ("ENTENTE_PUBLIC_URL", "", "needs ENTENTE_PUBLIC_URL"),
        ("ENTENTE_OIDC_ISSUER", "", "ENTENTE_OIDC_ISSUER: is missing"),
        ("ENTENTE_OIDC_ISSUER", "http://login.example.com", "ENTENTE_OIDC_ALLOW"),
        ("ENTENTE_OIDC_ISSUER", "https://10.1.2.3", "ENTENTE_OIDC_ALLOW"),
        ("ENTENTE_OIDC_CLIENT_ID", "", "needs ENTENTE_OIDC_CLIENT_ID"),
        ("ENTENTE_OIDC_CLIENT_SECRET_FILE", "/a/file", "not both"),
        ("ENTENTE_OIDC_PRINCIPAL", "human.ada", "`{claim}` once"),
        ("ENTENTE_OIDC_PRINCIPAL", "{claim}", "something before it"),
        ("ENTENTE_OIDC_TEAMS", "eng=", "a group and a team"),
        ("ENTENTE_OIDC_CREATE_PEOPLE", "perhaps", "must be `true` or `false`"),
    ] {
        let said = read(name, value).unwrap_err();
        assert!(said.contains(told) && !said.contains("horse"), "{said}");
    }
}

#[test]
fn a_sink_is_a_broker_with_a_stream_and_a_prefix() {
    let secret = |name: &str| (name == "NATS_PASSWORD").then(|| "horse/battery".to_owned());
    let with = |name: &str, url: &str, stream: &str, prefix: &str| {
        let sink = serde_json::json!({ "name": name, "url": url, "stream": stream, "prefix": prefix });
        sinks::read(&serde_json::json!({ "sinks": [sink] }).to_string(), &secret)
    };
    let url = "nats://entente:${NATS_PASSWORD}@nats.internal:4222";
    let read = with("events", "tls://nats.internal:4222", "ENTENTE", "events.").unwrap();
    assert_eq!((read[0].name.as_str(), read[0].rule().prefix.as_str()), ("events", "events."));
    // Only what a URL is made of: the password here must be escaped.
    for (name, url, stream, prefix, told) in [
        ("a b", "nats://a", "S", "p.", "is no name"),
        ("a", "nats://a", "S.T", "p.", "`stream`"),
        ("a", "nats://a", "S", "", "`prefix`"),
        ("a", "nats://a", "S", "p..", "`prefix`"),
        ("a", "nats://a", "S", "p.>", "`prefix`"),
        ("a", "nats://a", "S", "p", "end with a dot"),
        ("a", "nats://a", "S", "entente.", "servers wake each other"),
        ("a", "nats://a", "S", "entente.events.", "servers wake each other"),
        ("a", "amqp://a", "S", "p.", "`url`"),
        ("a", url, "S", "p.", "`url`"),
        ("a", "nats://${OTHER}@a", "S", "p.", "OTHER is not set"),
    ] {
        let said = with(name, url, stream, prefix).unwrap_err();
        assert!(said.contains(told) && !said.contains("horse"), "{told}: {said}");
    }
    let kafka = |url: &str, prefix: &str| {
        let sink = serde_json::json!({ "name": "a", "url": url, "prefix": prefix });
        sinks::read(&serde_json::json!({ "sinks": [sink] }).to_string(), &secret)
    };
    let sinks::BrokerConfig::Kafka(read) =
        kafka("kafkas://en%40tente:pass%3Aword@one:9093,[::1],two", "events").unwrap().remove(0).broker
    else {
        panic!("no Kafka");
    };
    let hosts: Vec<(&str, u16)> = read.hosts.iter().map(|(host, port)| (host.as_str(), *port)).collect();
    assert_eq!(hosts, [("one", 9093), ("::1", 9092), ("two", 9092)]);
    assert_eq!((read.tls, read.login), (true, Some(("en@tente".to_owned(), "pass:word".to_owned()))));
    for (url, prefix, told) in [
        ("kafka://", "p", "`url`"),
        ("kafka://a,,b", "p", "`url`"),
        ("kafka://a:port", "p", "`url`"),
        ("kafka://user@a", "p", "`url`"),
        ("kafka://a/topic", "p", "`url`"),
        ("kafkax://a", "p", "`url`"),
        ("kafka://a", "", "`prefix`"),
        ("kafka://a", "p.>", "`prefix`"),
        ("nats://a", "p.", "`stream`"),
    ] {
        let said = kafka(url, prefix).unwrap_err();
        assert!(said.contains(told), "{url}: {said}");
    }
    let said = with("a", "kafka://a", "S", "p.").unwrap_err();
    assert!(said.contains("leave it out"), "{said}");
    let twice = r#"{"sinks": [{"name": "a", "url": "nats://a", "stream": "S", "prefix": "p."}, {"name": "a", "url": "nats://b", "stream": "S", "prefix": "p."}]}"#;
    assert_eq!(sinks::read(twice, &secret).unwrap_err(), "two sinks have one name");
    let shown = format!("{:?}", with("a", "nats://entente:donkey@a", "S", "p.").unwrap());
    assert!(!shown.contains("donkey"), "{shown}");
}
