import type { BenchmarkFinding } from '../../../src/benchmarks/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'

const FINDINGS_SHOWN_MAX = 200

/** Findings of the safety check by task. Those that block come first. */
export function FindingsList({ findings }: { findings: readonly BenchmarkFinding[] }) {
  const sorted = findings.toSorted((a, b) => Number(a.severity === 'warn') - Number(b.severity === 'warn'))
  return (
    <ul className="rows small" aria-label="Findings of the safety check">
      {sorted.slice(0, FINDINGS_SHOWN_MAX).map(({ task, rule, severity, path, detail }) => (
        <li key={`${task} ${rule} ${path} ${detail}`}>
          <span className={severity === 'block' ? 'fail-mark' : 'muted'}>
            {severity === 'block' ? '× refused' : '! warning'}
          </span>{' '}
          <strong>
            <bdi>{replaceUnsafeCharacters(task ?? 'the dataset')}</bdi>
          </strong>{' '}
          <code>{replaceUnsafeCharacters(path)}</code> <bdi>{replaceUnsafeCharacters(detail)}</bdi>{' '}
          <span className="muted">({rule})</span>
        </li>
      ))}
      {sorted.length > FINDINGS_SHOWN_MAX && <li className="muted">and {sorted.length - FINDINGS_SHOWN_MAX} more</li>}
    </ul>
  )
}
