import type { BatchTaskDetail } from '../../../src/batches/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { plural, usd } from '../../components/format.ts'
import { Card } from '../components/page.tsx'

type EvidenceLine = { mark: '✓' | '!' | '×'; text: string }

/** Lists the evidence for and against a task, warnings first. */
export function EvidenceCard({ task }: { task: BatchTaskDetail }) {
  const { evidence, costUsd, note } = task
  const { calibration } = evidence
  const seconds = evidence.stages.reduce((sum, stage) => sum + stage.seconds, 0)
  return (
    <Card title="Evidence" className="review-evidence">
      <ul className="marked">
        {listEvidence(task).map(({ mark, text }) => (
          <li key={text} className="evidence-line">
            <span className={`evidence-mark ${mark === '✓' ? 'pass' : 'warn'}`} aria-hidden="true">
              {mark}
            </span>
            <bdi>{replaceUnsafeCharacters(text)}</bdi>
          </li>
        ))}
      </ul>
      {note && (
        <>
          <h3>Note</h3>
          <p className="small muted">
            <bdi>{replaceUnsafeCharacters(note)}</bdi>
          </p>
        </>
      )}
      <h3>Cost</h3>
      <p className="small muted">
        {usd(costUsd)}
        {seconds > 0 && ` · ${Math.round(seconds)} s`}
      </p>
      {calibration?.strength && (
        <>
          <h3>Strength</h3>
          <p className="small muted">
            <bdi>
              {calibration.strength}
              {calibration.weakness ? `: ${replaceUnsafeCharacters(calibration.weakness)}` : ''}
            </bdi>
          </p>
        </>
      )}
    </Card>
  )
}

function listEvidence({ concerns, evidence }: BatchTaskDetail): EvidenceLine[] {
  const { findings, calibration, stages } = evidence
  return [
    ...concerns.map((text): EvidenceLine => ({ mark: '!', text })),
    ...findings.map(
      ({ severity, rule, path, detail }): EvidenceLine => ({
        mark: severity === 'block' ? '×' : '!',
        text: `${rule} in ${path}: ${detail}`,
      }),
    ),
    ...(calibration ? listCalibrationEvidence(calibration) : []),
    ...stages.map(
      ({ stage, reused }): EvidenceLine => ({
        mark: '✓',
        text: `Stage ${stage} passed${reused ? ' with the reused result of another task' : ''}`,
      }),
    ),
  ]
}

function listCalibrationEvidence({
  verifyMode,
  sandbox,
  winners: passingCheats,
  cheats,
}: NonNullable<BatchTaskDetail['evidence']['calibration']>): EvidenceLine[] {
  return [
    verifyMode === null
      ? { mark: '×', text: 'The reference solution passes in no verify mode' }
      : { mark: '✓', text: `The reference solution passes and a no-op fails in mode ${verifyMode} (${sandbox})` },
    passingCheats.length > 0
      ? { mark: '!', text: `Known cheats pass: ${passingCheats.join(', ')}` }
      : { mark: '✓', text: `None of ${plural(cheats.length, 'known cheat')} passes` },
  ]
}
