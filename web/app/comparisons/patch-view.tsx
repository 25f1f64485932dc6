import { useQuery } from '@tanstack/react-query'
import type { ComparisonTrial } from '../../../src/comparisons/shapes/schema.ts'
import { toDiffLineKind } from '../../components/diff-line.ts'
import { useApi } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Empty } from '../components/page.tsx'
import type { ComparisonTarget } from './scope.ts'

const PATCH = 'changes.patch'
const BYTES_MAX = 200_000
const LINES_MAX = 2000

type PatchViewProps = { target: ComparisonTarget; trial: ComparisonTrial; label: string }

/** The changes of a trial, line by line. They are untrusted text. */
export function PatchView({ target, trial, label }: PatchViewProps) {
  const api = useApi()
  const artifact = trial.artifacts.find(({ name }) => name === PATCH)
  const params = { ...target.input.params, trialId: trial.id, artifact: PATCH }
  const patch = useQuery({
    queryKey: ['patch', params],
    queryFn: async ({ signal }) => {
      const file = await api.openFile(target.endpoints.artifact, { params }, signal)
      const bytes = new Uint8Array(await file.arrayBuffer())
      return { text: new TextDecoder().decode(bytes.subarray(0, BYTES_MAX)), isCut: bytes.byteLength > BYTES_MAX }
    },
    enabled: artifact !== undefined,
  })
  if (!artifact) return <Empty>No changes are stored for this trial.</Empty>
  return <Loaded query={patch}>{({ text, isCut }) => <PatchLines text={text} isCut={isCut} label={label} />}</Loaded>
}

function PatchLines({ text, isCut, label }: { text: string; isCut: boolean; label: string }) {
  const lines = text.split('\n')
  const shown = lines.slice(0, LINES_MAX)
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a patch that scrolls must be reachable by keyboard */}
      <section className="patch" tabIndex={0} aria-label={label}>
        <pre>
          {shown.map((line, number) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines of a stored patch never move
            <code key={number} className={toDiffLineKind(line)}>
              {`${line}\n`}
            </code>
          ))}
        </pre>
      </section>
      {(isCut || lines.length > shown.length) && <p className="small muted">The patch is longer than what is shown.</p>}
    </>
  )
}
