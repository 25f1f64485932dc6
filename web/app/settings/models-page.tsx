import { useState } from 'react'
import type { CatalogModel, CustomModel } from '../../../src/catalog/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { usd } from '../../components/format.ts'
import { useChange, useRead } from '../api/use-api.ts'
import { useAnyScope } from '../comparisons/any-scope.ts'
import { type Scope, toTarget } from '../comparisons/scope.ts'
import { ConfirmButton } from '../components/confirm-button.tsx'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { listModels, removeModel } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { ModelForm } from './model-form.tsx'

/** Lists custom models with their prices, and the models and harnesses of the catalog. */
export function ModelsPage() {
  const [editedModel, setEditedModel] = useState<CustomModel>()
  const mayChange = useHasPermission('admin')
  return (
    <Page title="Models and harnesses">
      <CustomModels onEdit={mayChange ? setEditedModel : undefined} />
      {mayChange && (
        <ModelForm key={editedModel?.catalogId ?? 'new'} model={editedModel} onDone={() => setEditedModel(undefined)} />
      )}
      <CatalogCards />
    </Page>
  )
}

/** Starts to edit a model. Undefined if the key of the session may not change models. */
type EditHandler = ((model: CustomModel) => void) | undefined

function CustomModels({ onEdit }: { onEdit: EditHandler }) {
  const customModels = useRead(listModels, { query: { limit: 200 } })
  return (
    <Card title="Custom models">
      <Loaded query={customModels}>
        {({ models }) =>
          models.length === 0 ? (
            <Empty command="assay models add custom/house --base-url https://models.example.com/v1 --input 0.5 --output 2">
              Models that this workspace has added appear here: a model of your own, or one at another address or price.
            </Empty>
          ) : (
            <DataTable
              label="Custom models"
              heads={['Model', 'Protocol', 'Address', 'Levels', '#In, USD', '#Out, USD', '#Cache read, USD', '']}
            >
              {models.map((model) => (
                <CustomModelRow key={model.catalogId} model={model} onEdit={onEdit} />
              ))}
            </DataTable>
          )
        }
      </Loaded>
      <p className="small muted">Prices are USD per million tokens. A trial keeps the prices at which it started.</p>
    </Card>
  )
}

function CustomModelRow({ model, onEdit }: { model: CustomModel; onEdit: EditHandler }) {
  const { catalogId, label, protocol, baseUrl, reasoningLevels, defaultReasoningLevel, prices } = model
  const remove = useChange(removeModel, { invalidates: [listModels] })
  return (
    <>
      <tr>
        <td>
          <bdi>{replaceUnsafeCharacters(label)}</bdi> <code>{catalogId}</code>
        </td>
        <td>{protocol}</td>
        <td>
          <bdi>{replaceUnsafeCharacters(baseUrl)}</bdi>
        </td>
        <td>
          {reasoningLevels.map((each) => (each === defaultReasoningLevel ? `${each} (default)` : each)).join(', ')}
        </td>
        <td className="number">{usd(prices.input)}</td>
        <td className="number">{usd(prices.output)}</td>
        <td className="number">{prices.cacheRead === undefined ? '–' : usd(prices.cacheRead)}</td>
        <td className="number">
          {onEdit && (
            <>
              <button type="button" className="button" aria-label={`Edit ${catalogId}`} onClick={() => onEdit(model)}>
                Edit
              </button>{' '}
              <ConfirmButton
                label={`Delete ${catalogId}`}
                isPending={remove.isPending}
                onConfirm={() => remove.mutate({ params: { slug: catalogId.replace('custom/', '') } })}
              >
                Delete
              </ConfirmButton>
            </>
          )}
        </td>
      </tr>
      {remove.isError && (
        <tr>
          <td colSpan={8}>
            <ProblemNote error={remove.error} />
          </td>
        </tr>
      )}
    </>
  )
}

function CatalogCards() {
  const { scope, isLoading } = useAnyScope()
  if (isLoading) return null
  if (scope) return <ScopeCatalog scope={scope} />
  return (
    <Card title="Catalog">
      <Empty command="assay models catalog">
        The models and harnesses to choose from appear here when a benchmark was added or a repository connected.
      </Empty>
    </Card>
  )
}

function ScopeCatalog({ scope }: { scope: Scope }) {
  const { endpoints, params } = toTarget(scope)
  const catalog = useRead(endpoints.catalog, { params })
  const [filter, setFilter] = useState('')
  return (
    <Loaded query={catalog}>
      {({ models, harnesses }) => (
        <>
          <Card
            title="Catalog"
            actions={
              <label>
                Filter <input type="search" value={filter} onChange={({ target }) => setFilter(target.value)} />
              </label>
            }
          >
            <DataTable
              label="Catalog"
              heads={['Model', 'Provider', 'Levels', '#In, USD', '#Out, USD', 'Harnesses', 'Credential']}
            >
              {models
                .filter(({ catalogId, label }) => `${catalogId} ${label}`.toLowerCase().includes(filter.toLowerCase()))
                .map((model) => (
                  <CatalogRow key={model.catalogId} model={model} />
                ))}
            </DataTable>
          </Card>
          <Card title="Harnesses">
            <DataTable label="Harnesses" heads={['Harness', 'Version', 'Protocols']}>
              {harnesses.map(({ id, name, version, protocols }) => (
                <tr key={id}>
                  <td>
                    <bdi>{replaceUnsafeCharacters(name)}</bdi> <code>{id}</code>
                  </td>
                  <td>
                    <bdi>{replaceUnsafeCharacters(version)}</bdi>
                  </td>
                  <td>{protocols.join(', ') || 'needs no model'}</td>
                </tr>
              ))}
            </DataTable>
          </Card>
        </>
      )}
    </Loaded>
  )
}

function CatalogRow({ model }: { model: CatalogModel }) {
  const { catalogId, label, provider, reasoningLevels, prices, harnesses, credentials } = model
  return (
    <tr>
      <td>
        <bdi>{replaceUnsafeCharacters(label)}</bdi> <code className="own-line">{catalogId}</code>
      </td>
      <td>{provider}</td>
      <td>{reasoningLevels.join(', ')}</td>
      <td className="number">{usd(prices.input)}</td>
      <td className="number">{usd(prices.output)}</td>
      <td>{harnesses.join(', ')}</td>
      <td>{credentials.length > 0 ? '✓' : <span className="muted">none</span>}</td>
    </tr>
  )
}
