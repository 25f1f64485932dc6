import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { AddProgress, BenchmarkFinding } from '../../../src/benchmarks/schema.ts'
import { ProblemReceived } from '../../../src/platform/http/client.ts'
import { plural } from '../../components/format.ts'
import { toQueryKey, useApi } from '../api/use-api.ts'
import { Card } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { addBenchmark, listBenchmarks } from '../endpoints.gen.ts'
import { FindingsList } from './findings-list.tsx'

/** A form that adds a dataset from a registry and shows the progress of download and safety check. */
export function AddBenchmarkForm() {
  const api = useApi()
  const queries = useQueryClient()
  const navigate = useNavigate()
  const { add: proposedReference = '' } = useSearch({ from: '/benchmarks' })
  const [reference, setReference] = useState(proposedReference)
  const [calibrate, setCalibrate] = useState(true)
  const [progress, setProgress] = useState<AddProgress>()
  const add = useMutation({
    mutationFn: () => api.callWithProgress(addBenchmark, { body: { reference, calibrate } }, setProgress),
    onMutate: () => setProgress(undefined),
    onSuccess: async ({ datasetOrg, dataset }) => {
      await queries.invalidateQueries({ queryKey: toQueryKey(listBenchmarks) })
      await navigate({ to: '/benchmarks/$datasetOrg/$dataset', params: { datasetOrg, dataset } })
    },
  })
  const findings = listFindings(add.error)
  return (
    <Card title="Add a dataset">
      <form
        className="fields"
        onSubmit={(event) => {
          event.preventDefault()
          add.mutate()
        }}
      >
        <label htmlFor="reference">Name, optionally with @ and a tag, a revision or a digest</label>
        <input
          id="reference"
          required
          maxLength={400}
          placeholder="assay/quick"
          value={reference}
          onChange={({ target }) => setReference(target.value)}
        />
        <label className="check">
          <input type="checkbox" checked={calibrate} onChange={({ target }) => setCalibrate(target.checked)} />{' '}
          Calibrate every task: run the reference solution, a no-op and the known cheats in a sandbox
        </label>
        <button type="submit" className="button primary" disabled={add.isPending}>
          {add.isPending ? 'Adding…' : 'Add'}
        </button>
      </form>
      {add.isPending && progress && (
        <p role="status" className="muted">
          {progress.done} of {plural(progress.total, 'task')} downloaded and checked
        </p>
      )}
      {add.isError && <ProblemNote error={add.error} />}
      {findings.length > 0 && <FindingsList findings={findings} />}
    </Card>
  )
}

/** Returns the findings because of which the safety check refused a dataset. Empty for other errors. */
function listFindings(error: unknown): BenchmarkFinding[] {
  if (!(error instanceof ProblemReceived) || !('findings' in error.problem)) return []
  const { findings } = error.problem
  return Array.isArray(findings) ? findings : []
}
