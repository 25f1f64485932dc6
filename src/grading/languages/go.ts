import { posix } from 'node:path'
import { quote } from '../../sandboxes/kernel/shell.ts'
import type { TreeFacts } from '../suite.ts'
import {
  escapePattern,
  type LanguageEcosystem,
  type Runner,
  renderPaths,
  type StubbedName,
  type StubValue,
  USUAL_EXITS,
} from './language.ts'
import { completeRecipe, DEPS, type EnvRecipe, listFilesNamed, listTextsNamed } from './recipe.ts'

const toPackage = (path: string): string => `./${posix.dirname(path)}`

/** Returns the `-run` pattern for the functions of test ids such as `example.org/kit::TestOne/part`. */
const renderRunPattern = (ids: readonly string[]): string =>
  `^(${[...new Set(ids.map((id) => /::(\w+)/u.exec(id)?.[1] ?? ''))].filter((name) => name !== '').join('|')})$`

/** Sets the arguments of the shell to all packages: those of each module of a workspace, where there is one. */
const LIST_PACKAGES = `if [ -f go.work ]; then set -- $(go list -m -f '{{.Dir}}/...'); else set -- ./...; fi`

/** Go compiles whole packages, so a test file runs with its package. */
const goTest: Runner = {
  id: 'go',
  name: 'go test',
  report: 'go',
  shuffles: true,
  selects: true,
  isFallback: false,
  detect: ({ paths }) => paths.has('go.mod') || paths.has('go.work'),
  isTarget: (path) => /_test\.go$/.test(path),
  command({ targets, seed, only = null }) {
    const packages = [...new Set(targets.map(toPackage))].sort()
    const shuffle = seed === null ? '' : ` -shuffle=${seed}`
    const select = only === null ? '' : ` -run ${quote(renderRunPattern(only))}`
    const goTestCommand = `GOFLAGS="-buildvcs=false $GOFLAGS" GOPROXY=off GOTOOLCHAIN=auto go test -json -count=1${shuffle}${select}`
    if (packages.length > 0) return `${goTestCommand}${renderPaths(packages)} > "$ASSAY_REPORT/report"`
    return `${LIST_PACKAGES}; ${goTestCommand} "$@" > "$ASSAY_REPORT/report"`
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: ['go.mod', 'go.sum', 'go.work', 'go.work.sum', 'vendor/'],
  tools: [],
}

/**
 * Compiles the tests once: a run then compiles only what a change touches, and works offline. A newer Go toolchain that
 * the module requires is downloaded with the modules.
 */
function buildRecipe(tree: TreeFacts): EnvRecipe {
  const isVendored = tree.paths.has('vendor/modules.txt')
  const modules = listFilesNamed(tree, /^go\.(mod|sum|work|work\.sum)$/)
  return completeRecipe({
    runner: goTest.id,
    aptPackages: ['gcc', 'golang-go', 'libc6-dev'],
    env: { GOPATH: `${DEPS}/go`, GOCACHE: `${DEPS}/go-build`, GOFLAGS: '-buildvcs=false', GOTOOLCHAIN: 'auto' },
    manifests: isVendored ? [] : modules,
    toolchain: [renderStandardLibraryBuild(tree)],
    setup: isVendored || modules.length === 0 ? [] : ['go mod download'],
    build: [`${LIST_PACKAGES}; go test -count=1 -run '^$' "$@" > /dev/null || go build "$@"`],
  })
}

/** Minor version of Go in the base image. */
const IMAGE_GO_MINOR = 24

/**
 * Returns the shell line that compiles the standard library with the Go version of a tree. Its go.mod names a
 * version only if that of the image may be too old, so that all other trees share the layer.
 */
function renderStandardLibraryBuild(tree: TreeFacts): string {
  const text = tree.texts.get('go.work') ?? tree.texts.get('go.mod') ?? ''
  const lines = [...text.matchAll(/^(go|toolchain)[ \t]+((?:go)?1\.(\d{1,3})(?:\.\d{1,3})?)[ \t]*(?:\/\/.*)?$/gm)]
  const versions = lines
    .filter(([, , , minor]) => Number(minor) >= IMAGE_GO_MINOR)
    .map(([, word, version]) => `${word} ${version}`)
  const module = ['module std.local', ...versions].map((each) => quote(each)).join(' ')
  return `mkdir /tmp/std && cd /tmp/std && printf '%s\\n' ${module} > go.mod && go build std && cd / && rm -r /tmp/std`
}

/** Matches the signature of a function or method. The first group is its result types. */
const FUNCTION = /^func\s+(?:\([^)]*\)\s*)?\w+\s*\([^)]*\)\s*(.*?)\s*\{?$/s

/** Writes functions that return the zero values of their result types. There is only one variant of them. */
function writeStubs(names: readonly StubbedName[], value: StubValue): string {
  if (value !== 'nothing') return ''
  return names
    .flatMap(({ signature }) => {
      const results = signature === null ? undefined : FUNCTION.exec(signature.trim())?.[1]
      if (signature === null || results === undefined) return []
      return [`${signature.trim().replace(/\s*\{$/, '')} { ${renderZeroReturn(results)} }`]
    })
    .join('\n')
}

/** Renders the statement that returns zero values. `*new(T)` is the zero value of any type. */
function renderZeroReturn(results: string): string {
  if (results === '') return ''
  const types = results.startsWith('(') ? results.slice(1, -1).split(',') : [results]
  const isNamed = results.startsWith('(') && types.every((each) => /^\s*\w+\s+\S/.test(each))
  return isNamed ? 'return' : `return ${types.map((type) => `*new(${type.trim()})`).join(', ')}`
}

export const go: LanguageEcosystem = {
  id: 'go',
  sources: [{ name: 'go', extensions: ['go'], comments: 'slashes', singleQuote: 'character', hasInlineTests: false }],
  tests: { names: [/_tests?\.go$/], support: [], extensions: ['.go'] },
  dependencyFiles: ['go.mod', 'go.sum', 'go.work.sum'],
  buildFiles: ['go.mod', 'go.work'],
  buildFilePatterns: [],
  readTestFiles: null,
  publishedPackages: (tree) =>
    listTextsNamed(tree, /^go\.mod$/).flatMap((text) => {
      const name = /^module\s+(\S+)/m.exec(text)?.[1]
      return name === undefined ? [] : [{ name }]
    }),
  publishedCopy: (name) =>
    `/pkg/mod/${escapePattern(name.replace(/[A-Z]/g, (letter) => `!${letter.toLowerCase()}`))}@[^/@]+$`,
  runners: [{ runner: goTest, buildRecipe, artefacts: [], buildArgs: [] }],
  hidesModules: false,
  testConfiguration: [],
  stubs: [{ files: /\.go$/, when: 'always', write: writeStubs }],
}
