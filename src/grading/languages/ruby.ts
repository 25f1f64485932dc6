import type { TreeFacts } from '../suite.ts'
import {
  escapePattern,
  hasFile,
  type LanguageEcosystem,
  mentions,
  type Runner,
  renderPaths,
  type StubbedName,
  type StubValue,
  USUAL_EXITS,
} from './language.ts'
import { completeRecipe, DEPS, type EnvRecipe, listFilesNamed, listPresent } from './recipe.ts'

const rspec: Runner = {
  id: 'rspec',
  name: 'RSpec',
  report: 'rspec',
  shuffles: true,
  selects: false,
  isFallback: false,
  detect: (tree) =>
    tree.paths.has('.rspec') ||
    mentions(tree, 'Gemfile', /\brspec\b/) ||
    hasFile(tree, (path) => /^spec\/.*_spec\.rb$/.test(path)),
  isTarget: (path) => /_spec\.rb$/.test(path),
  command({ targets, seed }) {
    const order = seed === null ? 'defined' : `rand:${seed}`
    const program = 'if [ -f Gemfile ]; then rspec="bundle exec rspec"; else rspec=rspec; fi'
    return `${program}; $rspec --no-color --order ${order} --format json --out "$ASSAY_REPORT/report"${renderPaths(targets)}`
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: ['.rspec', '.rspec-local', 'Gemfile', 'Gemfile.lock', '.bundle/', 'spec_helper.rb', 'rails_helper.rb'],
  tools: [],
}

/** Installs a gem's dependencies in the build: a gemspec often reads the version from the sources. */
function buildRecipe(tree: TreeFacts): EnvRecipe {
  const hasGemfile = tree.paths.has('Gemfile')
  const isGem = [...tree.paths].some((path) => /^[^/]+\.gemspec$/.test(path))
  const install = ['bundle install']
  return completeRecipe({
    runner: rspec.id,
    aptPackages: hasGemfile ? ['build-essential', 'bundler', 'ruby', 'ruby-dev'] : ['ruby', 'ruby-rspec'],
    env: hasGemfile ? { BUNDLE_PATH: `${DEPS}/bundle`, BUNDLE_APP_CONFIG: `${DEPS}/bundle-settings` } : {},
    manifests: hasGemfile && !isGem ? listPresent(tree, 'Gemfile', 'Gemfile.lock', '.ruby-version') : [],
    setup: hasGemfile && !isGem ? install : [],
    build: hasGemfile && isGem ? install : [],
  })
}

/** Defines the methods on `Object`, so that every receiver has them. */
function writeStubs(names: readonly StubbedName[], value: StubValue): string {
  const result = value === 'nothing' ? 'nil' : value
  const stubs = names.map(({ name }) => `  def ${name}(*, **) = ${result} unless method_defined?(:${name})`)
  return `class Object\n${stubs.join('\n')}\nend`
}

export const ruby: LanguageEcosystem = {
  id: 'ruby',
  sources: [
    { name: 'ruby', extensions: ['rb', 'rake'], comments: 'hash', singleQuote: 'string', hasInlineTests: false },
  ],
  tests: {
    names: [/^test_.+\.rb$/, /_tests?\.rb$/, /_spec\.rb$/, /^tests?\.rb$/],
    support: [],
    extensions: ['.rb'],
  },
  dependencyFiles: ['gemfile', 'gemfile.lock'],
  buildFiles: ['gemfile', 'gemfile.lock', '.rspec', 'rakefile'],
  buildFilePatterns: [/\.gemspec$/],
  readTestFiles: /\.rb$/,
  publishedPackages: (tree) =>
    listFilesNamed(tree, /\.gemspec$/).map((path) => ({
      name: path.slice(path.lastIndexOf('/') + 1, -'.gemspec'.length),
    })),
  publishedCopy: (name) => `/gems/${escapePattern(name)}(?:-\\d[^-/]*)?$`,
  runners: [{ runner: rspec, buildRecipe, artefacts: ['.bundle/', 'Gemfile.lock'], buildArgs: [] }],
  hidesModules: false,
  testConfiguration: ['[.]rspec'],
  stubs: [{ files: /\.rb$/, when: 'always', write: writeStubs }],
}
