import { hasFile, mentions, pathWords, type Runner } from './runner.ts'

export const phpunit: Runner = {
  id: 'phpunit',
  name: 'PHPUnit',
  ecosystem: 'php',
  report: 'junit',
  shuffles: true,
  detect: (tree) =>
    hasFile(tree, (path) => /^phpunit(\.dist)?\.xml(\.dist)?$/.test(path)) ||
    mentions(tree, 'composer.json', /"phpunit\/phpunit"/),
  isTarget: (path) => /Test\.php$/.test(path),
  command({ targets, seed }) {
    const order = seed === null ? '' : ` --order-by=random --random-order-seed=${seed}`
    const program = 'if [ -f vendor/bin/phpunit ]; then phpunit="php vendor/bin/phpunit"; else phpunit=phpunit; fi'
    return `${program}; $phpunit --colors=never --do-not-cache-result --log-junit "$ASSAY_REPORT/report"${order}${pathWords(targets)}`
  },
  prepare: [],
  exits: { passed: [0], failed: [1, 2] },
  settings: ['phpunit.xml', 'phpunit.xml.dist', 'phpunit.dist.xml', 'composer.json', 'composer.lock', 'vendor/'],
  tools: [],
}
