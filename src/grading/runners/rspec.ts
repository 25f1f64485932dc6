import { hasFile, mentions, pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

export const rspec: Runner = {
  id: 'rspec',
  name: 'RSpec',
  ecosystem: 'ruby',
  report: 'rspec',
  shuffles: true,
  detect: (tree) =>
    tree.paths.has('.rspec') ||
    mentions(tree, 'Gemfile', /\brspec\b/) ||
    hasFile(tree, (path) => /^spec\/.*_spec\.rb$/.test(path)),
  isTarget: (path) => /_spec\.rb$/.test(path),
  command({ targets, seed }) {
    const order = seed === null ? 'defined' : `rand:${seed}`
    const program = 'if [ -f Gemfile ]; then rspec="bundle exec rspec"; else rspec=rspec; fi'
    return `${program}; $rspec --no-color --order ${order} --format json --out "$ASSAY_REPORT/report"${pathWords(targets)}`
  },
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: ['.rspec', '.rspec-local', 'Gemfile', 'Gemfile.lock', '.bundle/', 'spec_helper.rb', 'rails_helper.rb'],
  tools: [],
}
