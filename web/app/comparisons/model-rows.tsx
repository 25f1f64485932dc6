import type { Catalog, CatalogModel } from '../../../src/catalog/schema.ts'
import { usd } from '../../components/format.ts'
import { Card, Empty } from '../components/page.tsx'
import { addModel, type DraftModel, listHarnesses } from './draft.ts'

type ModelRowsProps = { catalog: Catalog; models: readonly DraftModel[]; onChange: (models: DraftModel[]) => void }

/** Lists the chosen models, each with a level, harnesses and a credential, and adds others. */
export function ModelRows({ catalog, models, onChange }: ModelRowsProps) {
  const byId = new Map(catalog.models.map((model) => [model.catalogId, model]))
  const changeRow = (key: number, changes: Partial<DraftModel>) =>
    onChange(models.map((each) => (each.key === key ? { ...each, ...changes } : each)))
  return (
    <Card
      title="Models and harnesses"
      actions={<AddModel catalog={catalog} onAdd={(model) => onChange(addModel(models, model))} />}
    >
      {models.length === 0 && (
        <Empty>
          Add the models to compare. Each runs with the harnesses that you choose; add a model twice to compare two
          reasoning levels.
        </Empty>
      )}
      <ul className="rows">
        {models.map((chosen) => {
          const model = byId.get(chosen.catalogId)
          if (!model) return null
          return (
            <ModelRow
              key={chosen.key}
              model={model}
              chosen={chosen}
              onChange={(changes) => changeRow(chosen.key, changes)}
              onRemove={() => onChange(models.filter(({ key }) => key !== chosen.key))}
            />
          )
        })}
      </ul>
    </Card>
  )
}

function AddModel({ catalog, onAdd }: { catalog: Catalog; onAdd: (model: CatalogModel) => void }) {
  const usableModels = catalog.models.filter(({ credentials }) => credentials.length > 0)
  const withoutCredentialCount = catalog.models.length - usableModels.length
  return (
    <label>
      {withoutCredentialCount > 0 && (
        <span className="faint">{withoutCredentialCount} others need a credential · </span>
      )}
      <span className="hidden">Add a model</span>
      <select
        value=""
        onChange={({ target }) => {
          const model = usableModels.find(({ catalogId }) => catalogId === target.value)
          if (model) onAdd(model)
        }}
      >
        <option value="">Add a model…</option>
        {usableModels.map(({ catalogId, label }) => (
          <option key={catalogId} value={catalogId}>
            {label}
          </option>
        ))}
      </select>
    </label>
  )
}

type ModelRowProps = {
  model: CatalogModel
  chosen: DraftModel
  onChange: (changes: Partial<DraftModel>) => void
  onRemove: () => void
}

function ModelRow({ model, chosen, onChange, onRemove }: ModelRowProps) {
  const { prices, reasoningLevels } = model
  const chooseLevel = (level: string) => {
    const supported = listHarnesses(model, level)
    onChange({ level, harnesses: chosen.harnesses.filter((each) => supported.includes(each)) })
  }
  return (
    <li className="model-row">
      <div className="model-head">
        <strong>
          <bdi>{model.label}</bdi>
        </strong>
        {model.provider !== 'none' && (
          <span className="small faint">
            {usd(prices.input)} in, {usd(prices.output)} out per million tokens
          </span>
        )}
        <button type="button" className="link-button small" onClick={onRemove}>
          Remove<span className="hidden"> {model.label}</span>
        </button>
      </div>
      <div className="model-choices">
        {reasoningLevels.length > 1 && (
          <label>
            level{' '}
            <select value={chosen.level} onChange={({ target }) => chooseLevel(target.value)}>
              {reasoningLevels.map((level) => (
                <option key={level}>{level}</option>
              ))}
            </select>
          </label>
        )}
        {model.credentials.length > 1 && (
          <label>
            credential{' '}
            <select value={chosen.credentialId} onChange={({ target }) => onChange({ credentialId: target.value })}>
              {model.credentials.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <HarnessChoice model={model} chosen={chosen} onChange={onChange} />
      </div>
    </li>
  )
}

function HarnessChoice({ model, chosen, onChange }: Omit<ModelRowProps, 'onRemove'>) {
  const toggle = (harness: string, isChosen: boolean) =>
    onChange({
      harnesses: isChosen ? [...chosen.harnesses, harness] : chosen.harnesses.filter((each) => each !== harness),
    })
  return (
    <fieldset className="harnesses">
      <legend className="hidden">Harnesses of {model.label}</legend>
      {listHarnesses(model, chosen.level).map((harness) => (
        <label key={harness} className="check">
          <input
            type="checkbox"
            checked={chosen.harnesses.includes(harness)}
            onChange={({ target }) => toggle(harness, target.checked)}
          />{' '}
          {harness}
        </label>
      ))}
    </fieldset>
  )
}
