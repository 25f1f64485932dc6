import { type FormEvent, useState } from 'react'
import type { CustomModel } from '../../../src/catalog/schema.ts'
import type { Cloud } from '../../../src/credentials/schema.ts'
import { LEVELS, type Level, PROTOCOLS, type Protocol } from '../../../src/harnesses/model-access.ts'
import { useChange } from '../api/use-api.ts'
import { Card } from '../components/page.tsx'
import { ProblemNote } from '../components/problem-note.tsx'
import { addModel, inBenchmark, inRepository, listModels } from '../endpoints.gen.ts'

/** `model` is the model to change, undefined to add one. */
type ModelFormProps = { model: CustomModel | undefined; onDone: () => void }

/** Fields of the form. Prices stay texts until they are sent. */
type ModelDraft = {
  slug: string
  name: string
  label: string
  protocol: Protocol
  cloud: Cloud | undefined
  baseUrl: string
  levels: readonly Level[]
  defaultLevel: Level
  prices: Record<PriceName, string>
}

const PRICE_FIELDS = [
  { name: 'input', label: 'Input, USD per million tokens', isRequired: true },
  { name: 'output', label: 'Output, USD per million tokens', isRequired: true },
  { name: 'cacheRead', label: 'Cached input; empty for the price of input', isRequired: false },
  { name: 'cacheWrite', label: 'Input written to the cache; empty for the price of input', isRequired: false },
] as const
type PriceName = (typeof PRICE_FIELDS)[number]['name']

const EMPTY_MODEL: ModelDraft = {
  slug: '',
  name: '',
  label: '',
  protocol: 'openai-chat',
  cloud: undefined,
  baseUrl: '',
  levels: ['none'],
  defaultLevel: 'none',
  prices: { input: '', output: '', cacheRead: '', cacheWrite: '' },
}

const toDraft = ({ catalogId, name, label, protocol, cloud, baseUrl, prices, ...levels }: CustomModel): ModelDraft => ({
  slug: catalogId.replace('custom/', ''),
  name,
  label,
  protocol,
  cloud,
  baseUrl,
  levels: levels.reasoningLevels,
  defaultLevel: levels.defaultReasoningLevel,
  prices: {
    input: String(prices.input),
    output: String(prices.output),
    cacheRead: String(prices.cacheRead ?? ''),
    cacheWrite: String(prices.cacheWrite ?? ''),
  },
})

const toPrice = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text))

/** Adds a custom model, or changes the label, default level and prices of one. Its API key is stored as a credential. */
export function ModelForm({ model, onDone }: ModelFormProps) {
  const [draft, setDraft] = useState(() => (model ? toDraft(model) : EMPTY_MODEL))
  const change = (changes: Partial<ModelDraft>) => setDraft((previous) => ({ ...previous, ...changes }))
  const save = useChange(addModel, {
    invalidates: [listModels, inBenchmark.catalog, inRepository.catalog],
    onDone: () => {
      setDraft(EMPTY_MODEL)
      onDone()
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate({ body: toBody(draft, model) })
  }
  return (
    <Card>
      <details open={model !== undefined}>
        <summary>
          <h2>{model ? `Change ${model.catalogId}` : 'Add a model'}</h2>
        </summary>
        <form className="fields" onSubmit={submit}>
          {!model && <IdentityFields draft={draft} onChange={change} />}
          <label htmlFor="model-label">Label</label>
          <input
            id="model-label"
            required
            maxLength={200}
            value={draft.label}
            onChange={({ target }) => change({ label: target.value })}
          />
          <label htmlFor="model-default">Default reasoning level</label>
          <select
            id="model-default"
            value={draft.defaultLevel}
            onChange={({ target }) => change({ defaultLevel: target.value as Level })}
          >
            {draft.levels.map((level) => (
              <option key={level}>{level}</option>
            ))}
          </select>
          {PRICE_FIELDS.map(({ name, label, isRequired }) => (
            <PriceField
              key={name}
              name={name}
              label={label}
              isRequired={isRequired}
              value={draft.prices[name]}
              onChange={(value) => change({ prices: { ...draft.prices, [name]: value } })}
            />
          ))}
          <div className="actions">
            <button type="submit" className="button primary" disabled={save.isPending}>
              {model ? 'Save' : 'Add model'}
            </button>
            {model && (
              <button type="button" className="button" onClick={onDone}>
                Cancel
              </button>
            )}
          </div>
          {save.isError && <ProblemNote error={save.error} />}
          {save.data && (
            <p className="small" role="status">
              Saved. Store its key as a credential of the provider <code>{save.data.catalogId}</code>.
            </p>
          )}
        </form>
      </details>
    </Card>
  )
}

function toBody(draft: ModelDraft, model: CustomModel | undefined) {
  const { slug, name, label, protocol, cloud, baseUrl, levels, defaultLevel, prices } = draft
  return {
    catalogId: `custom/${slug}`,
    name,
    label,
    protocol,
    cloud,
    baseUrl,
    reasoningLevels: [...levels],
    defaultReasoningLevel: defaultLevel,
    prices: {
      input: toPrice(prices.input) ?? 0,
      output: toPrice(prices.output) ?? 0,
      cacheRead: toPrice(prices.cacheRead),
      cacheWrite: toPrice(prices.cacheWrite),
    },
    contextTokens: model?.contextTokens,
    outputTokens: model?.outputTokens,
  }
}

type PriceFieldProps = {
  name: string
  label: string
  isRequired: boolean
  value: string
  onChange: (value: string) => void
}

const PriceField = ({ name, label, isRequired, value, onChange }: PriceFieldProps) => (
  <>
    <label htmlFor={`price-${name}`}>{label}</label>
    <input
      id={`price-${name}`}
      type="number"
      min="0"
      step="any"
      required={isRequired}
      value={value}
      onChange={({ target }) => onChange(target.value)}
    />
  </>
)

const CLOUDS: readonly { id: Cloud; label: string }[] = [
  { id: 'bedrock', label: 'Amazon Bedrock' },
  { id: 'vertex', label: 'Google Vertex AI' },
  { id: 'azure', label: 'Azure OpenAI' },
]

type IdentityFieldsProps = { draft: ModelDraft; onChange: (changes: Partial<ModelDraft>) => void }

/** Fields that cannot be changed later, because stored results refer to them. */
function IdentityFields({ draft, onChange }: IdentityFieldsProps) {
  const toggle = (level: Level, isChosen: boolean) => {
    const levels = LEVELS.filter((each) => (each === level ? isChosen : draft.levels.includes(each)))
    const [first = 'none'] = levels
    onChange({ levels, defaultLevel: levels.includes(draft.defaultLevel) ? draft.defaultLevel : first })
  }
  return (
    <>
      <label htmlFor="model-slug">Id, after custom/</label>
      <input
        id="model-slug"
        required
        pattern="[a-z0-9][a-z0-9._\-]{0,62}"
        placeholder="house-model"
        value={draft.slug}
        onChange={({ target }) => onChange({ slug: target.value })}
      />
      <label htmlFor="model-name">Name that its provider knows</label>
      <input
        id="model-name"
        required
        maxLength={200}
        value={draft.name}
        onChange={({ target }) => onChange({ name: target.value })}
      />
      <label htmlFor="model-protocol">Protocol</label>
      <select
        id="model-protocol"
        value={draft.protocol}
        onChange={({ target }) => onChange({ protocol: target.value as Protocol })}
      >
        {PROTOCOLS.map((protocol) => (
          <option key={protocol}>{protocol}</option>
        ))}
      </select>
      <label htmlFor="model-cloud">Cloud that hosts it</label>
      <select
        id="model-cloud"
        value={draft.cloud ?? ''}
        onChange={({ target }) => onChange({ cloud: CLOUDS.find(({ id }) => id === target.value)?.id })}
      >
        <option value="">None: an API with a key</option>
        {CLOUDS.map(({ id, label }) => (
          <option key={id} value={id}>
            {label}
          </option>
        ))}
      </select>
      <label htmlFor="model-url">Address</label>
      <input
        id="model-url"
        type="url"
        required
        placeholder="https://models.example.com/v1"
        value={draft.baseUrl}
        onChange={({ target }) => onChange({ baseUrl: target.value })}
      />
      <fieldset className="choices">
        <legend className="small muted">Reasoning levels</legend>
        {LEVELS.map((level) => (
          <label key={level} className="check">
            <input
              type="checkbox"
              checked={draft.levels.includes(level)}
              onChange={({ target }) => toggle(level, target.checked)}
            />{' '}
            {level}
          </label>
        ))}
      </fieldset>
    </>
  )
}
