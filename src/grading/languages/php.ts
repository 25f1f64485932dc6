import type { TreeFacts } from '../suite.ts'
import { escapePattern, hasFile, type LanguageEcosystem, mentions, type Runner, renderPaths } from './language.ts'
import { completeRecipe, type EnvRecipe, listPresent, listTextsNamed } from './recipe.ts'

const phpunit: Runner = {
  id: 'phpunit',
  name: 'PHPUnit',
  report: 'junit',
  shuffles: true,
  selects: false,
  isFallback: false,
  detect: (tree) =>
    hasFile(tree, (path) => /^phpunit(\.dist)?\.xml(\.dist)?$/.test(path)) ||
    mentions(tree, 'composer.json', /"phpunit\/phpunit"/),
  isTarget: (path) => /Test\.php$/.test(path),
  command({ targets, seed }) {
    const order = seed === null ? '' : ` --order-by=random --random-order-seed=${seed}`
    const program = 'if [ -f vendor/bin/phpunit ]; then phpunit="php vendor/bin/phpunit"; else phpunit=phpunit; fi'
    return `${program}; $phpunit --colors=never --do-not-cache-result --log-junit "$ASSAY_REPORT/report"${order}${renderPaths(targets)}`
  },
  prepare: [],
  exits: { passed: [0], failed: [1, 2] },
  settings: ['phpunit.xml', 'phpunit.xml.dist', 'phpunit.dist.xml', 'composer.json', 'composer.lock', 'vendor/'],
  tools: [],
}

function buildRecipe(tree: TreeFacts): EnvRecipe {
  const hasComposer = tree.paths.has('composer.json')
  return completeRecipe({
    runner: phpunit.id,
    aptPackages: ['php-cli', 'php-mbstring', 'php-xml', ...(hasComposer ? ['composer', 'unzip'] : ['phpunit'])],
    env: hasComposer ? { COMPOSER_ALLOW_SUPERUSER: '1', COMPOSER_CACHE_DIR: '/tmp/composer' } : {},
    manifests: hasComposer ? listPresent(tree, 'composer.json', 'composer.lock') : [],
    setup: hasComposer
      ? [`${renderVersion(tree)}composer install --no-interaction --no-scripts --no-autoloader --no-progress`]
      : [],
    build: hasComposer ? ['composer dump-autoload --no-interaction', 'rm -rf /tmp/composer'] : [],
  })
}

/**
 * Returns the variable with the version that `branch-alias` gives to the default branch, such as `5.x-dev`. Composer
 * cannot guess it without git, which the layer of the manifests does not have, and assumes 1.0.0. A project that PHPUnit
 * itself requires, such as a parser, could not be installed with that.
 */
function renderVersion(tree: TreeFacts): string {
  const text = tree.texts.get('composer.json') ?? ''
  const [, version] = /"dev-(?:main|master)"\s*:\s*"(\d{1,4}(?:\.(?:\d{1,4}|x)){1,3}-dev)"/.exec(text) ?? []
  return version === undefined ? '' : `COMPOSER_ROOT_VERSION=${version} `
}

export const php: LanguageEcosystem = {
  id: 'php',
  sources: [
    { name: 'php', extensions: ['php'], comments: 'hash-and-slashes', singleQuote: 'string', hasInlineTests: false },
  ],
  tests: {
    names: [/_tests?\.php$/, /[a-z0-9](Test|Tests|TestCase|Spec|IT)\.php$/],
    support: [],
    extensions: ['.php'],
  },
  dependencyFiles: ['composer.json', 'composer.lock'],
  buildFiles: ['composer.json', 'phpunit.xml', 'phpunit.xml.dist'],
  buildFilePatterns: [],
  readTestFiles: /\.php$/,
  publishedPackages: (tree) =>
    listTextsNamed(tree, /^composer\.json$/).flatMap((text) => {
      const name = /"name"\s*:\s*"([\w.-]+\/[\w.-]+)"/.exec(text)?.[1]
      return name === undefined ? [] : [{ name }]
    }),
  publishedCopy: (name) => `/vendor/${escapePattern(name)}$`,
  runners: [
    {
      runner: phpunit,
      buildRecipe,
      artefacts: ['/vendor/', 'composer.lock', '.phpunit.result.cache'],
      buildArgs: [],
    },
  ],
  hidesModules: false,
  testConfiguration: ['phpunit[^/]*'],
  stubs: [],
}
