const { Visitor } = require('@swc/core/Visitor.js')

// Import order, top to bottom: a folder may import only from the folders above it.
// `scripts/import-rules.test.ts` tests each rule on a small tree that violates it.
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
  'configurations',
  'gateway',
  'repos',
  'grading',
  'taskgen',
  'batches',
  'benchmarks',
  'comparisons',
  'releases',
  'results',
  'site',
  'workspace-app',
]
// Files directly in src/ and operate/ combine all folders, so they come last.
const GROUND = 'operate/|[^/]+\\.ts$'

// Pure decisions, which import nothing with side effects. Add new ones here.
const PURE = [
  'platform/(retry-delay|usd)',
  'catalog/model',
  'harbor/safety/rules/[^/.]+',
  'harbor/safety/(?!check-)[^/.]+',
  'harnesses/(model-access|json)',
  'gateway/(failure-causes|json-shape|price|retry-policy|wire-protocol|protocols)',
  'gateway/protocols/[^/.]+',
  'repos/pull-requests/pull-request',
  'grading/(languages/[^/.]+|services/[^/.]+|path-kinds|suite)',
  'taskgen/stage-result',
  'taskgen/candidates/(?!scan|split-commit|tree-pairs|verdict-cache)[^/.]+',
  'taskgen/lint/[^/.]+',
  'taskgen/authoring/sanitise',
  'taskgen/review/(model-review|difficulty|test-assertions|edit-solution)',
  'taskgen/environment/dockerfile',
  'taskgen/execution/(expand-names|introduced-names|judge-runs|python-code|solution-(mutants|variants)|typescript-code)',
  'taskgen/assembly/generated-task',
  'statistics/[^/.]+',
  'comparisons/statistics/(answer|trial-grid)',
  'comparisons/(outcome|plan|status|counts|quote)',
  'releases/(aggregate|cohort|fingerprint|stats)',
  'results/cards',
].join('|')

const JUNK = '(utils?|helpers?|common|shared|misc|types|constants|managers?|index)'
const TESTS = ['\\.test\\.ts$', '^(test|bench)/']

// Modules that a browser may load: the wire contract and its dependencies.
const CONTRACT = [
  '/schema\\.ts$',
  '^src/platform/http/(endpoint|page|unique)\\.ts$',
  '^src/platform/problem\\.ts$',
  '^src/harnesses/model-access\\.ts$',
]
const CONTRACT_BASE = '^src/platform/(http/(endpoint|page|unique|client|read-events)|problem)\\.ts$'
const ZOD = 'node_modules/zod/'
const EVENT_PARSER = 'node_modules/eventsource-parser/'

// The only commands that import server code: they start or repair it without a running server.
const STARTERS = '^cli/(serve|temporary-service|doctor|backup|operate[^/]*)\\.ts$'
// Commands that run the trial engine without a server.
const ENGINE = '^cli/(trial|run-tasks|calibrate|check|harnesses|models-catalog|scan|batches-canaries)\\.ts$'
const CLIENT = [
  '/schema\\.ts$',
  '^src/platform/(http/(client|endpoint)|terminal-text|errors|suggestion|data-folder|untrusted-json|listen)\\.ts$',
  '^src/harnesses/model-access\\.ts$',
  // Pure formatting of names and numbers, as in the published pictures.
  '^src/results/text\\.ts$',
]

const forbid = (name, from, to) => ({ name, severity: 'error', from, to })
const below = (place) => [...ORDER.slice(place + 1).map((folder) => `${folder}/`), GROUND].join('|')

// swc parses `using`, but the visitor of dependency-cruiser does not support it and would stop there.
const { visitStatement } = Visitor.prototype
Visitor.prototype.visitStatement = function visit(statement) {
  if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement)
  return { ...statement, decls: this.visitVariableDeclarators(statement.decls) }
}

module.exports = {
  forbidden: [
    ...ORDER.map((folder, place) =>
      forbid(
        `${folder}-imports-only-from-above`,
        { path: `^src/${folder}/`, pathNot: TESTS },
        { path: `^src/(${below(place)})` },
      ),
    ),
    forbid('src-has-only-listed-folders', { path: `^src/(?!(${ORDER.join('|')}|operate)/)[^/]+/` }, {}),
    forbid(
      'src-does-not-import-clients',
      { path: '^src/', pathNot: [...TESTS, '^src/site/routes\\.ts$'] },
      { path: '^(scripts|cli|web)/' },
    ),
    // The routes of the site render its pages.
    forbid(
      'site-imports-only-pages',
      { path: '^src/site/' },
      { path: '^(scripts|cli|web)/', pathNot: '^web/public/[^/]+/page\\.ts$' },
    ),
    forbid('program-does-not-import-tests', { path: '^(src|cli|web)/', pathNot: TESTS }, { path: TESTS }),
    forbid('no-cycles', {}, { circular: true }),
    forbid('nothing-unresolved', {}, { couldNotResolve: true }),
    forbid(
      'program-does-not-import-dev-dependencies',
      { path: '^(src|cli)/', pathNot: TESTS },
      { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'] },
    ),
    forbid('contract-is-browser-safe', { path: '^src/.+/schema\\.ts$' }, { pathNot: [...CONTRACT, ZOD] }),
    forbid('contract-base-is-browser-safe', { path: CONTRACT_BASE }, { pathNot: [CONTRACT_BASE, ZOD, EVENT_PARSER] }),
    forbid(
      'clients-import-only-the-contract',
      { path: '^(web|cli)/', pathNot: [...TESTS, STARTERS, ENGINE, '^cli/demo\\.ts$'] },
      { path: '^src/', pathNot: CLIENT },
    ),
    forbid(
      'demo-imports-only-the-format-of-keys',
      { path: '^cli/demo\\.ts$' },
      { path: '^src/', pathNot: [...CLIENT, '^src/workspaces/key\\.ts$'] },
    ),
    forbid(
      'starters-import-only-the-contract-and-entry-points',
      { path: STARTERS, pathNot: TESTS },
      { path: '^src/', pathNot: [...CLIENT, '^src/(operate/)?[^/]+\\.ts$', '^src/platform/log\\.ts$'] },
    ),
    forbid(
      'engine-commands-import-only-entry-points',
      { path: ENGINE },
      {
        path: '^src/',
        pathNot: [
          ...CLIENT,
          '^src/trials/(local-engine|record)\\.ts$',
          '^src/operate/(model-trial|metered-trial|trial-models|canaries)\\.ts$',
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
      // The embedded server creates its own first database.
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
      { path: '^src/platform/([^/]+)/', pathNot: TESTS },
      { path: '/sql\\.ts$', pathNot: '^src/platform/$1/' },
    ),
    forbid('sql-is-private-to-its-noun', { pathNot: ['^src/[^/]+/', ...TESTS] }, { path: '/sql\\.ts$' }),
    forbid(
      'http-server-stays-in-platform',
      { path: '^(src|cli)/', pathNot: [...TESTS, '^src/platform/http/'] },
      { path: 'node_modules/(hono|@hono)/' },
    ),
    forbid(
      'http-stays-in-routes',
      {
        path: '^src/[^/]+/',
        pathNot: [...TESTS, '^src/platform/', '/(routes|schema)\\.ts$'],
      },
      // The caller and the page are facts of a request that operations may take.
      { path: '^src/platform/http/', pathNot: '/(caller|page)\\.ts$' },
    ),
    forbid(
      'requests-go-out-through-platform',
      {
        path: '^src/',
        pathNot: [
          ...TESTS,
          '^src/platform/(http|outbound)/',
          // It accepts requests and sends none.
          '^src/platform/listen\\.ts$',
          '^src/gateway/(gateway|client-response|sandbox-port)\\.ts$',
          '^src/sandboxes/egress/egress\\.ts$',
          // These calls go to our own gateway.
          '^src/gateway/client/(complete|open-model)\\.ts$',
          // A Docker engine is usually a local socket, which the guard would refuse.
          '^src/sandboxes/docker/(client|connection)\\.ts$',
          // The API server of a cluster is the operator's choice, and usually has a private address.
          '^src/sandboxes/kubernetes/client\\.ts$',
        ],
      },
      { path: ['node_modules/undici/', '^(node:)?(http|https|http2)$'] },
    ),
    forbid('routes-are-mounted-by-app', { pathNot: ['^src/app\\.ts$', ...TESTS] }, { path: '/routes\\.ts$' }),
    forbid(
      'decisions-are-pure',
      { path: `^src/(${PURE})\\.ts$` },
      // Hashing and parsing the input are pure.
      {
        pathNot: [
          `^src/(${PURE})\\.ts$`,
          '/schema\\.ts$',
          '^src/harbor/(task|paths|resolve|source|fields|template|report|dockerfile|settings|limits|yaml-value)\\.ts$',
          '^src/sandboxes/kernel/shell\\.ts$',
          '^src/platform/(untrusted-json|outbound/(url-rules|image-registry))\\.ts$',
          '^(node:)?(crypto|path|zlib)$',
          'node_modules/(ipaddr\\.js|semver|smol-toml)/',
          ZOD,
        ],
      },
    ),
    forbid('no-utility-files-or-barrels', {}, { path: `/${JUNK}(/|\\.tsx?$)`, pathNot: 'node_modules/' }),
  ],
  options: {
    // TypeScript 7 has no compiler API. swc sees type-only imports too, so a type cannot point the wrong way either.
    parser: 'swc',
    doNotFollow: { path: 'node_modules/' },
    exclude: { path: '^web/app/dist' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.js', '.tsx', '.css'],
      exportsFields: ['exports'],
      conditionNames: ['node', 'import', 'types'],
    },
  },
}
