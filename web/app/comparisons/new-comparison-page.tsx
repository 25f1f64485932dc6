import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Benchmark } from '../../../src/benchmarks/schema.ts'
import type { Catalog } from '../../../src/catalog/schema.ts'
import type { Repository } from '../../../src/repos/schema.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { listBenchmarks, listRepositories } from '../endpoints.gen.ts'
import { ConfigurationChoice } from './configuration-choice.tsx'
import { type Draft, EMPTY_DRAFT } from './draft.ts'
import { ModelRows } from './model-rows.tsx'
import { QuoteCard } from './quote-card.tsx'
import { nameScope, type Scope, toTarget } from './scope.ts'

/** The form of a new comparison: fields on the left, the quote on the right. */
export function NewComparisonPage() {
  const benchmarks = useRead(listBenchmarks, { query: { limit: 200 } })
  const repositories = useRead(listRepositories, { query: { limit: 200 } })
  return (
    <Page title="New comparison">
      <Loaded query={benchmarks}>
        {(benchmarkList) => (
          <Loaded query={repositories}>
            {({ repos }) => (
              <ScopeForm
                scopes={[...benchmarkList.benchmarks.map(toBenchmarkScope), ...repos.map(toRepositoryScope)]}
              />
            )}
          </Loaded>
        )}
      </Loaded>
    </Page>
  )
}

const toBenchmarkScope = ({ datasetOrg, dataset }: Benchmark): Scope => ({ kind: 'benchmark', datasetOrg, dataset })
const toRepositoryScope = ({ owner, name }: Repository): Scope => ({ kind: 'repository', owner, name })
/** Returns the value of a scope in the list and in the address: `benchmark assay/quick`. */
const toOptionValue = (scope: Scope): string => `${scope.kind} ${nameScope(scope)}`

function ScopeForm({ scopes }: { scopes: readonly Scope[] }) {
  const { on } = useSearch({ from: '/comparisons/new' })
  const navigate = useNavigate()
  const scope = scopes.find((each) => toOptionValue(each) === on) ?? scopes[0]
  if (!scope)
    return (
      <Card>
        <Empty command="assay benchmarks add assay/quick">
          A comparison needs tasks. Add a benchmark, or connect a repository and approve tasks of it.
        </Empty>
      </Card>
    )
  return (
    <>
      <label className="field">
        Tasks of{' '}
        <select
          value={toOptionValue(scope)}
          onChange={({ target }) => void navigate({ to: '/comparisons/new', search: { on: target.value } })}
        >
          {scopes.map((each) => (
            <option key={toOptionValue(each)} value={toOptionValue(each)}>
              {nameScope(each)} ({each.kind})
            </option>
          ))}
        </select>
      </label>
      <CatalogForm key={toOptionValue(scope)} scope={scope} />
    </>
  )
}

function CatalogForm({ scope }: { scope: Scope }) {
  const { endpoints, params } = toTarget(scope)
  const catalog = useRead(endpoints.catalog, { params })
  const [draft, setDraft] = useState(EMPTY_DRAFT)
  return (
    <Loaded query={catalog}>
      {(loadedCatalog) => {
        const defaultSandbox = loadedCatalog.sandboxes.find(({ available }) => available)?.id ?? ''
        const completeDraft = { ...draft, sandbox: draft.sandbox || defaultSandbox }
        return (
          <div className="form-columns">
            <div className="form-choices">
              <ModelRows
                catalog={loadedCatalog}
                models={draft.models}
                onChange={(models) => setDraft((previous) => ({ ...previous, models }))}
              />
              <ConfigurationChoice
                chosen={draft.configurations}
                onChange={(configurations) => setDraft((previous) => ({ ...previous, configurations }))}
              />
              <RunFields catalog={loadedCatalog} draft={completeDraft} onChange={setDraft} />
            </div>
            <QuoteCard scope={scope} catalog={loadedCatalog} draft={completeDraft} />
          </div>
        )
      }}
    </Loaded>
  )
}

type RunFieldsProps = { catalog: Catalog; draft: Draft; onChange: (draft: Draft) => void }

const NUMBER_FIELDS: readonly {
  name: 'attempts' | 'budget' | 'trialBudget' | 'concurrency'
  label: string
  min: number
  step: 1 | 'any'
  /** Value that an empty field stands for. */
  placeholder: string
}[] = [
  { name: 'attempts', label: 'Attempts per task', min: 1, step: 1, placeholder: '1' },
  { name: 'budget', label: 'Budget, USD', min: 0, step: 'any', placeholder: 'no limit' },
  { name: 'trialBudget', label: 'Budget per trial, USD', min: 0, step: 'any', placeholder: 'no limit' },
  { name: 'concurrency', label: 'Trials in parallel', min: 1, step: 1, placeholder: 'no limit' },
]

function RunFields({ catalog, draft, onChange }: RunFieldsProps) {
  return (
    <Card title="Run">
      <div className="run-fields">
        <label className="field">
          Sandbox
          <select value={draft.sandbox} onChange={({ target }) => onChange({ ...draft, sandbox: target.value })}>
            {draft.sandbox === '' && <option value="">none is available</option>}
            {catalog.sandboxes.map(({ id, name, available }) => (
              <option key={id} value={id} disabled={!available}>
                {available ? name : `${name} (no worker offers it)`}
              </option>
            ))}
          </select>
        </label>
        {NUMBER_FIELDS.map(({ name, label, min, step, placeholder }) => (
          <label key={name} className="field">
            {label}
            <input
              type="number"
              min={min}
              step={step}
              placeholder={placeholder}
              value={draft[name]}
              onChange={({ target }) => onChange({ ...draft, [name]: target.value })}
            />
          </label>
        ))}
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={draft.skipCompleted}
          onChange={({ target }) => onChange({ ...draft, skipCompleted: target.checked })}
        />{' '}
        Reuse results of earlier comparisons
      </label>
    </Card>
  )
}
