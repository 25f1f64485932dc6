const { Visitor } = require('@swc/core/Visitor.js')

// The house, top to bottom: a folder may import from the folders above it, never from those below.
// `scripts/house-rules.test.ts` shows for each rule a small tree that breaks it.
const ORDER = [
  'platform',
  'statistics',
  'harbor',
  'contents',
  'sandboxes',
  'harnesses',
  'trials',
  'workspaces',
  'credentials',
  'webhooks',
  'catalog',
  'gateway',
  'repos',
  'grading',
  'taskgen',
  'batches',
  'benchmarks',
  'comparisons',
  'releases',
  'results',
]
// Files of src/ itself put the rooms together, and operate/ mends the whole: they stand below all of them.
const GROUND = 'operate/|[^/]+\\.ts$'

// Decisions: what goes in is all they know. A new one is added here, by name.
const PURE = [
  'platform/(jobs/backoff|usd)',
  'harbor/safety/rules/[^/.]+',
  'harbor/safety/(?!check-)[^/.]+',
  'harnesses/(model-access|json)',
  'gateway/(failure-causes|json-shape|price|retry-policy|wire-protocol|protocols)',
  'gateway/protocols/[^/.]+',
  'repos/pull-requests/(pull-request|commit|recognise|reverts)',
  'grading/(languages/[^/.]+|runners/[^/.]+|path-kinds|suite)',
  'taskgen/stage-result',
  'taskgen/candidates/(?!scan|screen-pairs|split-commit|tree-pairs|verdict-cache)[^/.]+',
  'taskgen/lint/[^/.]+',
  'taskgen/models/served-model',
  'taskgen/authoring/(sanitise|author-prompt)',
  'taskgen/review/(rubric|model-review|decide|review-prompt|difficulty)',
  'taskgen/environment/(dockerfile|lint-recipe|own-packages)',
  'taskgen/execution/(judge-runs|hunk-groups)',
  'taskgen/assembly/collect-hook',
  'taskgen/validation/(check-trials|validation)',
  'taskgen/canaries/figures',
  'statistics/[^/.]+',
  'comparisons/statistics/(answer|trial-grid)',
  'comparisons/(outcome|plan|status|counts|quote|trial-id)',
  'releases/(aggregate|canonical-json|cohort|fingerprint|picks|stats)',
  'results/cards',
  'webhooks/schedule',
].join('|')

const JUNK = '(utils?|helpers?|common|shared|misc|types|constants|managers?|index)'
const TESTS = ['\\.test\\.ts$', '/(test-support|loopback-servers)\\.ts$', '^(test|bench)/']

// What a browser may load: the wire contract, and the little that it is written with.
const CONTRACT = [
  '/schema\\.ts$',
  '^src/platform/http/(endpoint|page|unique)\\.ts$',
  '^src/platform/problem\\.ts$',
  '^src/harnesses/model-access\\.ts$',
]
const CONTRACT_BASE = '^src/platform/(http/(endpoint|page|unique|client|read-events)|problem)\\.ts$'
const ZOD = 'node_modules/zod/'
const EVENT_PARSER = 'node_modules/eventsource-parser/'

// The only commands that open the server's own code: they start it, or mend it where no server runs.
const STARTERS = '^cli/(serve|migrate|doctor|operate[^/]*)\\.ts$'
// The commands that run the engine by itself, without a server.
const ENGINE = '^cli/(trial|calibrate|check|harnesses|models-catalog|scan|batches-canaries)\\.ts$'
const CLIENT = [
  '/schema\\.ts$',
  '^src/platform/(http/(client|endpoint)|terminal-text|unknown-name)\\.ts$',
  '^src/harnesses/model-access\\.ts$',
]

const forbid = (name, from, to) => ({ name, severity: 'error', from, to })
const below = (place) => [...ORDER.slice(place + 1).map((folder) => `${folder}/`), GROUND].join('|')

// swc reads `using`; the visitor that dependency-cruiser walks its tree with does not know it, and would stop there.
const { visitStatement } = Visitor.prototype
Visitor.prototype.visitStatement = function visit(statement) {
  if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement)
  return { ...statement, decls: this.visitVariableDeclarators(statement.decls) }
}

module.exports = {
  forbidden: [
    ...ORDER.map((folder, place) =>
      forbid(
        `${folder}-looks-only-up`,
        { path: `^src/${folder}/`, pathNot: TESTS },
        { path: `^src/(${below(place)})` },
      ),
    ),
    forbid('src-has-only-known-rooms', { path: `^src/(?!(${ORDER.join('|')}|operate)/)[^/]+/` }, {}),
    forbid('src-stands-alone', { path: '^src/', pathNot: TESTS }, { path: '^(scripts|cli|web)/' }),
    forbid('the-program-knows-no-tests', { path: '^(src|cli|web)/', pathNot: TESTS }, { path: TESTS }),
    forbid('no-cycles', {}, { circular: true }),
    forbid('nothing-unresolved', {}, { couldNotResolve: true }),
    forbid(
      'the-program-needs-no-dev-dependency',
      { path: '^(src|cli)/', pathNot: TESTS },
      { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'] },
    ),
    forbid('contract-is-browser-safe', { path: '^src/.+/schema\\.ts$' }, { pathNot: [...CONTRACT, ZOD] }),
    forbid('contract-base-is-browser-safe', { path: CONTRACT_BASE }, { pathNot: [CONTRACT_BASE, ZOD, EVENT_PARSER] }),
    forbid(
      'clients-see-only-the-contract',
      { path: '^(web|cli)/', pathNot: [...TESTS, STARTERS, ENGINE] },
      { path: '^src/', pathNot: CLIENT },
    ),
    forbid(
      'starters-see-only-the-contract-and-the-entrance',
      { path: STARTERS, pathNot: TESTS },
      { path: '^src/', pathNot: [...CLIENT, '^src/(operate/)?[^/]+\\.ts$', '^src/platform/log\\.ts$'] },
    ),
    forbid(
      'the-engine-is-entered-by-its-door',
      { path: ENGINE },
      {
        path: '^src/',
        pathNot: [
          ...CLIENT,
          '^src/trials/(local-engine|record)\\.ts$',
          '^src/operate/(model-trial|metered-trial|canaries)\\.ts$',
          '^src/catalog/models\\.ts$',
          '^src/harbor/safety/check-task\\.ts$',
          '^src/taskgen/candidates/scan-clone\\.ts$',
        ],
      },
    ),
    forbid(
      'sql-stays-in-sql-files',
      { path: '^(src|cli|web)/', pathNot: [...TESTS, '^src/platform/db/', '/sql\\.ts$'] },
      { path: 'node_modules/(kysely|pg-[^/]+)/' },
    ),
    forbid(
      'connections-are-made-in-platform',
      // A server makes its own first database.
      { path: '^(src|cli|web)/', pathNot: [...TESTS, '^src/platform/(db|postgres)/', '/sql\\.ts$'] },
      { path: 'node_modules/(pg|@types/pg)/' },
    ),
    forbid(
      'a-table-has-one-owner',
      { path: '^src/(?!platform/)([^/]+)/', pathNot: TESTS },
      { path: '/sql\\.ts$', pathNot: '^src/$1/' },
    ),
    // The parts of the platform are independent of each other.
    forbid(
      'a-platform-table-has-one-owner',
      { path: '^(src/platform/.+)/[^/]+$', pathNot: TESTS },
      { path: '/sql\\.ts$', pathNot: '^$1/sql\\.ts$' },
    ),
    forbid('sql-is-private-to-its-noun', { pathNot: ['^src/[^/]+/', ...TESTS] }, { path: '/sql\\.ts$' }),
    forbid(
      'http-comes-in-through-platform',
      { path: '^(src|cli)/', pathNot: [...TESTS, '^src/platform/http/'] },
      { path: 'node_modules/(hono|@hono)/' },
    ),
    forbid(
      'http-stays-in-routes',
      {
        path: '^src/[^/]+/',
        pathNot: [...TESTS, '^src/platform/', '/(routes|schema)\\.ts$'],
      },
      // Who calls, and which page: facts of a request that an operation may be told.
      { path: '^src/platform/http/', pathNot: '/(caller|page)\\.ts$' },
    ),
    forbid(
      'requests-go-out-through-platform',
      {
        path: '^src/',
        pathNot: [
          ...TESTS,
          '^src/platform/(http|outbound)/',
          '^src/gateway/(gateway|client-response|sandbox-port)\\.ts$',
          '^src/sandboxes/egress/egress\\.ts$',
          // Our own calls go to the gateway, which is an address of ours.
          '^src/gateway/client/(complete|open-model)\\.ts$',
          // A Docker engine is mostly a socket of this machine, which the guard would refuse.
          '^src/sandboxes/docker/(client|connection)\\.ts$',
        ],
      },
      { path: ['node_modules/undici/', '^(node:)?(http|https|http2)$'] },
    ),
    forbid('routes-are-mounted-by-app', { pathNot: ['^src/app\\.ts$', ...TESTS] }, { path: '/routes\\.ts$' }),
    forbid(
      'pure-stays-pure',
      { path: `^src/(${PURE})\\.ts$` },
      // A hash of what went in is still a decision, and so is what a parser makes of a text.
      {
        pathNot: [
          `^src/(${PURE})\\.ts$`,
          '/schema\\.ts$',
          '^src/harbor/(task|resolve|source|fields|template|report|dockerfile|settings|yaml-value)\\.ts$',
          '^src/sandboxes/local/shell\\.ts$',
          '^(node:)?(crypto|path|zlib)$',
          'node_modules/(ipaddr\\.js|semver|smol-toml)/',
          ZOD,
        ],
      },
    ),
    forbid('no-junk-drawers-no-barrels', {}, { path: `/${JUNK}(/|\\.tsx?$)`, pathNot: 'node_modules/' }),
  ],
  options: {
    // TypeScript 7 has no compiler API. swc sees type-only imports too, so a type cannot point the wrong way either.
    parser: 'swc',
    doNotFollow: { path: 'node_modules/' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.js', '.tsx'],
      exportsFields: ['exports'],
      conditionNames: ['node', 'import', 'types'],
    },
  },
}
