import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { ComparisonTrial } from '../../../src/comparisons/shapes/schema.ts'
import { useApi } from '../api/use-api.ts'
import { DiffLines } from '../components/diff-lines.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Empty } from '../components/page.tsx'
import { PATCH } from '../trials/trial-files.ts'
import type { ComparisonTarget } from './scope.ts'

/** Maximum number of bytes of a patch that are shown. */
const PATCH_BYTES_MAX = 200_000

type PatchViewProps = { target: ComparisonTarget; trial: ComparisonTrial; label: string }

/** Shows the changes that the agent made in a trial. The patch is untrusted text. */
export function PatchView({ target, trial, label }: PatchViewProps) {
  const api = useApi()
  const artifact = trial.artifacts.find(({ name }) => name === PATCH)
  const params = { ...target.input.params, trialId: trial.id, artifact: PATCH }
  const patch = useQuery({
    queryKey: ['patch', params],
    queryFn: async ({ signal }) => {
      const file = await api.openFile(target.endpoints.artifact, { params }, signal)
      const bytes = new Uint8Array(await file.arrayBuffer())
      return {
        text: new TextDecoder().decode(bytes.subarray(0, PATCH_BYTES_MAX)),
        isTruncated: bytes.byteLength > PATCH_BYTES_MAX,
      }
    },
    enabled: artifact !== undefined,
  })
  if (!artifact) return <Empty>No changes are stored for this trial.</Empty>
  return (
    <Loaded query={patch}>
      {({ text, isTruncated }) => <PatchLines text={text} isTruncated={isTruncated} label={label} />}
    </Loaded>
  )
}

function PatchLines({ text, isTruncated, label }: { text: string; isTruncated: boolean; label: string }) {
  const lines = useMemo(() => text.replace(/\n$/, '').split('\n'), [text])
  if (text === '') return <Empty>The agent changed no file.</Empty>
  return (
    <>
      <DiffLines label={label} lines={lines} />
      {isTruncated && <p className="small muted">The patch is longer than what is shown.</p>}
    </>
  )
}
