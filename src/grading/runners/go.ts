import { posix } from 'node:path'
import { pathWords, type Runner, ZERO_OR_ONE } from './runner.ts'

const packageOf = (path: string): string => `./${posix.dirname(path)}`

/** A file is tested with its package: Go builds nothing smaller. */
export const go: Runner = {
  id: 'go',
  name: 'go test',
  ecosystem: 'go',
  report: 'go',
  shuffles: true,
  detect: ({ paths }) => paths.has('go.mod'),
  isTarget: (path) => /_test\.go$/.test(path),
  command({ targets, seed }) {
    const packages = targets.length === 0 ? ['./...'] : [...new Set(targets.map(packageOf))].sort()
    const shuffle = seed === null ? '' : ` -shuffle=${seed}`
    return `GOFLAGS="-buildvcs=false $GOFLAGS" GOPROXY=off GOTOOLCHAIN=auto go test -json -count=1${shuffle}${pathWords(packages)} > "$ASSAY_REPORT/report"`
  },
  prepare: [],
  exits: ZERO_OR_ONE,
  settings: ['go.mod', 'go.sum', 'go.work', 'go.work.sum', 'vendor/'],
  tools: [],
}
