import type { SamplePull } from '../repository.ts'

export const good = {
  left: {
    number: 1,
    title: 'Differences are taken from the left',
    body: '10 - 4 - 3 came to 9.\n\nFixes #8',
    edits: {
      'src/parse.rs': [
        [
          `        let first = self.factors()?;
        match self.sign("+-") {
            Some(sign) => Ok(Sum::Both(sign, Box::new(first), Box::new(self.terms()?))),
            None => Ok(first),
        }
`,
          `        let mut sum = self.factors()?;
        while let Some(sign) = self.sign("+-") {
            sum = Sum::Both(sign, Box::new(sum), Box::new(self.factors()?));
        }
        Ok(sum)
`,
        ],
      ],
      'tests/eval.rs': [
        [
          '#[test]\nfn names() {',
          `#[test]
fn differences_are_taken_from_the_left() {
    assert_eq!(eval("10 - 4 - 3", &[]), Ok(3.0));
    assert_eq!(eval("1 - 2 + 3", &[]), Ok(2.0));
}

#[test]
fn names() {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'easy',
  },
  nothing: {
    number: 2,
    title: 'Dividing by nothing is an error, and shown numbers keep their zeros',
    body: 'eval("1 / 0") was infinite, and show(100) was 1.',
    isMerge: true,
    branch: 'fe/zero',
    edits: {
      'src/eval.rs': [
        [
          `            Ok(match sign {
                '+' => left + right,
                '-' => left - right,
                '*' => left * right,
                _ => left / right,
            })
`,
          `            match sign {
                '+' => Ok(left + right),
                '-' => Ok(left - right),
                '*' => Ok(left * right),
                _ if right == 0.0 => Err("nothing can be divided by 0".to_string()),
                _ => Ok(left / right),
            }
`,
        ],
      ],
      'src/show.rs': [
        [
          `    let text = format!("{number:.2}");
    text.trim_end_matches(['0', '.']).to_string()
`,
          `    if number == number.trunc() {
        return format!("{number:.0}");
    }
    let text = format!("{number:.2}");
    match text.strip_suffix(".00") {
        Some(whole) => whole.to_string(),
        None => text.trim_end_matches('0').to_string(),
    }
`,
        ],
      ],
      'tests/eval.rs': [
        [
          '#[test]\nfn minus() {',
          `#[test]
fn dividing_by_nothing() {
    assert!(eval("1 / (2 - 2)", &[]).unwrap_err().contains("divided by 0"));
    assert_eq!(eval("0 / 4", &[]), Ok(0.0));
}

#[test]
fn minus() {`,
        ],
      ],
      'tests/show.rs': [
        [
          '#[test]\nfn two_places_at_most() {',
          `#[test]
fn zeros_of_a_whole_number_stay() {
    assert_eq!(show(-0.001 + 0.001), "0");
    assert_eq!(show(4.999), "5");
    assert_eq!(show(99.999), "100");
}

#[test]
fn two_places_at_most() {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  names: {
    number: 3,
    title: 'Tell which names a line needs',
    body: 'A form has to ask for names before it can evaluate a line: names_of gives them sorted, each once.',
    edits: {
      'src/names.rs': `//! Names in a sum.

use crate::parse::{parse, Sum};
use std::collections::BTreeSet;

/// Every name of a line, sorted, each once.
pub fn names_of(line: &str) -> Result<Vec<String>, String> {
    let mut found = BTreeSet::new();
    collect(&parse(line)?, &mut found);
    Ok(found.into_iter().collect())
}

fn collect(sum: &Sum, found: &mut BTreeSet<String>) {
    match sum {
        Sum::Number(_) => {}
        Sum::Name(name) => {
            found.insert(name.clone());
        }
        Sum::Minus(inner) => collect(inner, found),
        Sum::Both(_, left, right) => {
            collect(left, found);
            collect(right, found);
        }
    }
}
`,
      'src/lib.rs': [
        ['pub mod eval;\n', 'pub mod eval;\npub mod names;\n'],
        ['pub use eval::eval;\n', 'pub use eval::eval;\npub use names::names_of;\n'],
      ],
      'tests/names.rs': `use quill::names_of;

#[test]
fn names_are_sorted_and_come_once() {
    assert_eq!(names_of("b + a * (b - -c)"), Ok(vec!["a".to_string(), "b".to_string(), "c".to_string()]));
}

#[test]
fn a_number_has_no_names() {
    assert_eq!(names_of("1 + 2"), Ok(vec![]));
}

#[test]
fn what_is_no_sum_has_an_error() {
    assert!(names_of("1 +").is_err());
}
`,
    },
    // The test does not compile without the change; the pass-to-pass tests are found by running the other files alone.
    expected: 'ready',
    difficulty: 'medium',
  },
  powers: {
    number: 4,
    title: 'Powers and percentages',
    body: `A power binds more strongly than a product and is taken from the right: 2 ^ 3 ^ 2 is 512. A percentage is a
hundredth: 50% of x is written 50% * x. Shown numbers that are very large or very small are written with an exponent.`,
    isMerge: true,
    branch: 'gil/powers',
    edits: {
      'src/token.rs': [['} else if "+-*/()".contains(first) {', '} else if "+-*/()^%".contains(first) {']],
      'src/parse.rs': [
        ['    Minus(Box<Sum>),\n', '    Minus(Box<Sum>),\n    Percent(Box<Sum>),\n'],
        [
          `        let mut sum = self.single()?;
        while let Some(sign) = self.sign("*/") {
            sum = Sum::Both(sign, Box::new(sum), Box::new(self.single()?));
        }
        Ok(sum)
    }
`,
          `        let mut sum = self.power()?;
        while let Some(sign) = self.sign("*/") {
            sum = Sum::Both(sign, Box::new(sum), Box::new(self.power()?));
        }
        Ok(sum)
    }

    fn power(&mut self) -> Result<Sum, String> {
        if self.sign("-").is_some() {
            return Ok(Sum::Minus(Box::new(self.power()?)));
        }
        let mut first = self.single()?;
        while self.sign("%").is_some() {
            first = Sum::Percent(Box::new(first));
        }
        match self.sign("^") {
            Some(sign) => Ok(Sum::Both(sign, Box::new(first), Box::new(self.power()?))),
            None => Ok(first),
        }
    }
`,
        ],
        [
          `        if self.sign("-").is_some() {
            return Ok(Sum::Minus(Box::new(self.single()?)));
        }
        if self.sign("(")`,
          '        if self.sign("(")',
        ],
      ],
      'src/eval.rs': [
        [
          '        Sum::Minus(inner) => Ok(-value(inner, names)?),\n',
          '        Sum::Minus(inner) => Ok(-value(inner, names)?),\n        Sum::Percent(inner) => Ok(value(inner, names)? / 100.0),\n',
        ],
        [
          "                '*' => Ok(left * right),\n",
          "                '*' => Ok(left * right),\n                '^' => Ok(left.powf(right)),\n",
        ],
      ],
      'src/names.rs': [
        [
          '        Sum::Minus(inner) => collect(inner, found),\n',
          '        Sum::Minus(inner) | Sum::Percent(inner) => collect(inner, found),\n',
        ],
      ],
      'src/show.rs': [
        [
          '    if number == number.trunc() {\n',
          `    if number != 0.0 && !(1e-2..1e12).contains(&number.abs()) {
        return format!("{number:e}");
    }
    if number == number.trunc() {
`,
        ],
      ],
      'tests/eval.rs': [
        [
          '#[test]\nfn names() {',
          `#[test]
fn powers_are_taken_from_the_right() {
    assert_eq!(eval("2 ^ 3 ^ 2", &[]), Ok(512.0));
    assert_eq!(eval("2 * 3 ^ 2", &[]), Ok(18.0));
}

#[test]
fn a_minus_is_outside_of_a_power() {
    assert_eq!(eval("-2 ^ 2", &[]), Ok(-4.0));
    assert_eq!(eval("2 ^ -1", &[]), Ok(0.5));
}

#[test]
fn percentages() {
    assert_eq!(eval("50% * x", &[("x", 8.0)]), Ok(4.0));
}

#[test]
fn names() {`,
        ],
      ],
      'tests/token.rs': [
        [
          '#[test]\nfn an_empty_line_has_none() {',
          `#[test]
fn signs_of_powers_and_percentages() {
    assert_eq!(tokens("^%").unwrap(), [Token::Sign('^'), Token::Sign('%')]);
}

#[test]
fn an_empty_line_has_none() {`,
        ],
      ],
      'tests/names.rs': [
        [
          '#[test]\nfn a_number_has_no_names() {',
          `#[test]
fn names_in_powers_and_percentages() {
    assert_eq!(names_of("b ^ a%"), Ok(vec!["a".to_string(), "b".to_string()]));
}

#[test]
fn a_number_has_no_names() {`,
        ],
      ],
      'tests/show.rs': [
        [
          '#[test]\nfn two_places_at_most() {',
          `#[test]
fn very_large_and_very_small_numbers() {
    assert_eq!(show(5e15), "5e15");
    assert_eq!(show(-2e-7), "-2e-7");
    assert_eq!(show(0.0), "0");
}

#[test]
fn two_places_at_most() {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'hard',
  },
} satisfies Record<string, SamplePull>
