import type { BenchmarkFinding } from '../../../src/benchmarks/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'

const FINDINGS_SHOWN_MAX = 200

/** Lists findings of the safety check, each with its task. Findings that block the dataset come first. */
export function FindingsList({ findings }: { findings: readonly BenchmarkFinding[] }) {
  const sorted = [
    ...findings.filter(({ severity }) => severity === 'block'),
    ...findings.filter(({ severity }) => severity !== 'block'),
  ]
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
