import { Link, useParams } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import type { GenerationOptions, NewGeneration } from '../../../src/taskgen/schema.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { createBatch, importBatch, listBatches, readGenerationOptions } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'

const ROUTE = '/repos/$owner/$name'

/** Creates tasks from pull requests, or imports tasks that were written by hand. */
export function AddTasksCard() {
  const params = useParams({ from: ROUTE })
  const options = useRead(readGenerationOptions, { params })
  if (!useHasPermission('write')) return null
  return (
    <Card title="Add tasks">
      <div className="columns">
        <div>
          <h3>From merged pull requests</h3>
          <Loaded query={options}>{(loaded) => <CreateForm options={loaded} />}</Loaded>
        </div>
        <div>
          <h3>Written by hand</h3>
          <ImportForm />
        </div>
      </div>
    </Card>
  )
}

const DIFFICULTIES = ['easy', 'medium', 'hard'] as const
/** Number of candidates that tasks are created from, by difficulty. */
type CandidateCounts = Record<(typeof DIFFICULTIES)[number], number>

const CANDIDATES_MAX = 300

function CreateForm({ options }: { options: GenerationOptions }) {
  const { owner, name } = useParams({ from: ROUTE })
  const [counts, setCounts] = useState<CandidateCounts>({ easy: 5, medium: 0, hard: 0 })
  const [budget, setBudget] = useState('')
  const create = useChange(createBatch, { invalidates: [listBatches] })
  const { defaults } = options
  if (!defaults)
    return (
      <Empty command={`assay batches create --repo ${owner}/${name} --easy 5`}>
        A model writes the instructions and another one reviews them. Store a{' '}
        <Link to="/settings/credentials">credential</Link> of a model and start a worker first.
      </Empty>
    )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const budgetUsd = budget === '' ? undefined : Number(budget)
    create.mutate({
      params: { owner, name },
      body: { candidateCounts: counts, generation: defaults, budgetUsd, again: false },
    })
  }
  return (
    <form onSubmit={submit}>
      <div className="run-fields">
        {DIFFICULTIES.map((difficulty) => (
          <label key={difficulty} className="field">
            {difficulty}
            <input
              type="number"
              min="0"
              max={CANDIDATES_MAX}
              required
              value={counts[difficulty]}
              onChange={({ target }) => setCounts({ ...counts, [difficulty]: Number(target.value) })}
            />
          </label>
        ))}
        <label className="field">
          Budget, USD
          <input
            type="number"
            min="0"
            step="any"
            placeholder="no limit"
            value={budget}
            onChange={({ target }) => setBudget(target.value)}
          />
        </label>
      </div>
      <p className="small muted">{describeGeneration(options, defaults)}</p>
      <button type="submit" className="button primary" disabled={create.isPending}>
        Create tasks
      </button>
      {create.isError && <ProblemNote error={create.error} />}
    </form>
  )
}

function describeGeneration({ models }: GenerationOptions, defaults: NewGeneration): string {
  const nameModel = (id: string) => models.find(({ catalogId }) => catalogId === id)?.label ?? id
  const { authorModel, verifierModel, sandbox } = defaults
  return `${nameModel(authorModel)} writes the instructions, ${nameModel(verifierModel)} reviews them. Repositories are built in the sandbox ${sandbox}.`
}

function ImportForm() {
  const params = useParams({ from: ROUTE })
  const [archive, setArchive] = useState<File>()
  const upload = useChange(importBatch, { invalidates: [listBatches] })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (archive) upload.mutate({ params, upload: archive })
  }
  return (
    <form className="fields" onSubmit={submit}>
      <label htmlFor="archive">Archive (.tar.gz) with a folder in Harbor’s format for each task</label>
      <input
        id="archive"
        type="file"
        accept=".gz,.tgz,application/gzip"
        required
        onChange={({ target }) => setArchive(target.files?.[0])}
      />
      <p className="small muted">Every task is checked and validated in a sandbox before it can be approved.</p>
      <button type="submit" className="button" disabled={upload.isPending}>
        {upload.isPending ? 'Uploading…' : 'Import'}
      </button>
      {upload.isError && <ProblemNote error={upload.error} />}
    </form>
  )
}
