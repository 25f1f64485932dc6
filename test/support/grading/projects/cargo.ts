import type { SampleProject } from '../sample-project.ts'

export const cargoSample: SampleProject = {
  runner: 'cargo',
  tree: {
    'Cargo.toml': '[package]\nname = "shapes"\nversion = "0.1.0"\nedition = "2021"\n',
    '.gitignore': 'target\n',
    'src/lib.rs': `//! \`\`\`
//! assert_eq!(shapes::area(2), 4);
//! \`\`\`
pub fn area(side: i32) -> i32 { side * side }

#[cfg(test)]
mod tests {
    #[test]
    fn square() { assert_eq!(super::area(2), 4); }
}
`,
    'tests/shapes.rs': `use shapes::area;

#[test]
fn square() { assert_eq!(area(2), 4); }
#[test]
fn wrong() {
    println!("test never ... ok");
    assert_eq!(area(2), 5);
}
#[test]
fn panics() { panic!("no such shape") }
#[test]
#[should_panic]
fn should_panic() { panic!("as it should") }
#[test]
#[ignore = "later, or never"]
fn later() {}
#[test]
fn größe() { assert_eq!(area(3), 9); }
`,
    'tests/other.rs': '#[test]\nfn square() {}\n',
  },
  statuses: {
    'shapes src/lib.rs::tests::square': 'passed',
    'shapes tests/shapes.rs::square': 'passed',
    'shapes tests/shapes.rs::wrong': 'failed',
    'shapes tests/shapes.rs::panics': 'failed',
    'shapes tests/shapes.rs::should_panic': 'passed',
    'shapes tests/shapes.rs::later': 'skipped',
    'shapes tests/shapes.rs::größe': 'passed',
    'other tests/other.rs::square': 'passed',
    'shapes documentation::src/lib.rs - (line 1)': 'passed',
  },
  target: 'tests/other.rs',
  targetStatuses: { 'other tests/other.rs::square': 'passed' },
  failureMessage: ['shapes tests/shapes.rs::wrong', 'right: 5'],
  broken: { path: 'tests/broken.rs', content: 'use shapes::volume;\n', id: 'shapes test "broken"' },
}
