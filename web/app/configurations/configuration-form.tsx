import { type FormEvent, useState } from 'react'
import type { Configuration, ConfigurationSummary } from '../../../src/configurations/schema.ts'
import { useChange } from '../api/use-api.ts'
import { ProblemNote } from '../components/problem-note.tsx'
import { createConfiguration, listConfigurations, readConfiguration } from '../endpoints.gen.ts'

type ConfigurationDraft = Omit<Configuration, 'version' | 'digest' | 'createdAt'>
type ConfigurationFormProps = {
  content: ConfigurationDraft
  /** True if the form makes a new version and keeps the name. */
  isVersion?: boolean
  onCreated: (configuration: ConfigurationSummary) => void
}

export const EMPTY_CONFIGURATION: ConfigurationDraft = {
  name: '',
  files: [{ path: 'AGENTS.md', text: '', executable: false }],
  instructionPrefix: '',
  instructionSuffix: '',
  mcpServers: [],
  harnesses: {},
}

/** Creates a configuration from pasted or uploaded files. MCP servers and options of harnesses are kept as they are. */
export function ConfigurationForm({ content, isVersion = false, onCreated }: ConfigurationFormProps) {
  const [draft, setDraft] = useState(content)
  const create = useChange(createConfiguration, {
    invalidates: [listConfigurations, readConfiguration],
    onDone: onCreated,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    // The content of an existing version also has a digest and a time, which a request may not contain.
    const { name, files, instructionPrefix, instructionSuffix, mcpServers, harnesses } = draft
    const named = files.filter(({ path }) => path !== '')
    create.mutate({ body: { name, files: named, instructionPrefix, instructionSuffix, mcpServers, harnesses } })
  }
  return (
    <form className="fields wide" onSubmit={submit}>
      {!isVersion && (
        <>
          <label htmlFor="configuration-name">Name</label>
          <input
            id="configuration-name"
            required
            pattern="[a-z0-9][a-z0-9._\-]{0,62}"
            placeholder="rules"
            title="Lower-case letters, digits, dots, hyphens and underscores"
            value={draft.name}
            onChange={({ target }) => setDraft({ ...draft, name: target.value })}
          />
        </>
      )}
      <FileFields files={draft.files} onChange={(files) => setDraft((previous) => ({ ...previous, files }))} />
      <TextField
        id="instruction-prefix"
        label="Text before the instruction of every task"
        value={draft.instructionPrefix}
        onChange={(instructionPrefix) => setDraft({ ...draft, instructionPrefix })}
      />
      <TextField
        id="instruction-suffix"
        label="Text after the instruction of every task"
        value={draft.instructionSuffix}
        onChange={(instructionSuffix) => setDraft({ ...draft, instructionSuffix })}
      />
      <button type="submit" className="button primary" disabled={create.isPending}>
        {isVersion ? 'Create version' : 'Create'}
      </button>
      {create.isError && <ProblemNote error={create.error} />}
    </form>
  )
}

type DraftFiles = ConfigurationDraft['files']

function FileFields({ files, onChange }: { files: DraftFiles; onChange: (files: DraftFiles) => void }) {
  const change = (changed: number, changes: Partial<DraftFiles[number]>) =>
    onChange(files.map((file, index) => (index === changed ? { ...file, ...changes } : file)))
  const upload = async (chosen: FileList | null) => {
    const added = await Promise.all([...(chosen ?? [])].map(readUpload))
    const paths = new Set(added.map(({ path }) => path))
    // Uploads replace files with the same path, and named files that are still empty, such as the first AGENTS.md.
    onChange([...files.filter(({ path, text }) => !paths.has(path) && (text !== '' || path === '')), ...added])
  }
  return (
    <>
      {files.map((file, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: files are edited in place and have no other identity
        <fieldset key={index} className="configuration-file">
          <legend className="hidden">File {index + 1}</legend>
          <label htmlFor={`path-${index}`}>File, relative to the working directory</label>
          <div className="actions">
            <input
              id={`path-${index}`}
              maxLength={500}
              value={file.path}
              onChange={({ target }) => change(index, { path: target.value })}
            />
            <button
              type="button"
              className="link-button small"
              onClick={() => onChange(files.filter((each) => each !== file))}
            >
              Remove<span className="hidden"> {file.path}</span>
            </button>
          </div>
          <textarea
            className="editor"
            aria-label={`Content of file ${index + 1}`}
            rows={8}
            value={file.text}
            onChange={({ target }) => change(index, { text: target.value })}
          />
        </fieldset>
      ))}
      <div className="actions">
        <button
          type="button"
          className="button"
          onClick={() => onChange([...files, { path: '', text: '', executable: false }])}
        >
          Add a file
        </button>
        <label>
          or upload <input type="file" multiple onChange={({ target }) => void upload(target.files)} />
        </label>
      </div>
    </>
  )
}

const readUpload = async (file: File): Promise<DraftFiles[number]> => ({
  path: file.webkitRelativePath || file.name,
  text: await file.text(),
  executable: false,
})

type TextFieldProps = { id: string; label: string; value: string; onChange: (value: string) => void }

const TextField = ({ id, label, value, onChange }: TextFieldProps) => (
  <>
    <label htmlFor={id}>{label}</label>
    <textarea
      id={id}
      className="editor"
      rows={2}
      maxLength={20_000}
      value={value}
      onChange={({ target }) => onChange(target.value)}
    />
  </>
)
