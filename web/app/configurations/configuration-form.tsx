import { type FormEvent, useState } from 'react'
import type { Configuration, ConfigurationSummary } from '../../../src/configurations/schema.ts'
import { useChange } from '../api/use-api.ts'
import { ProblemNote } from '../components/problem-note.tsx'
import { createConfiguration, listConfigurations, readConfiguration } from '../endpoints.gen.ts'

type ConfigurationDraft = Omit<Configuration, 'version' | 'digest' | 'createdAt'>
type ConfigurationFormProps = {
  /** Content that the form starts with. */
  initial: ConfigurationDraft
  /** True if the form creates a new version of a configuration. The name then cannot be changed. */
  isNewVersion?: boolean
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

/**
 * Creates a configuration from pasted or uploaded files. MCP servers and options of harnesses have no fields; a new
 * version keeps them.
 */
export function ConfigurationForm({ initial, isNewVersion = false, onCreated }: ConfigurationFormProps) {
  const [draft, setDraft] = useState(initial)
  const create = useChange(createConfiguration, {
    invalidates: [listConfigurations, readConfiguration],
    onDone: onCreated,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    // The content of an existing version also has a digest and a time, which a request may not contain.
    const { name, files, instructionPrefix, instructionSuffix, mcpServers, harnesses } = draft
    const filesWithPath = files.filter(({ path }) => path !== '')
    create.mutate({
      body: { name, files: filesWithPath, instructionPrefix, instructionSuffix, mcpServers, harnesses },
    })
  }
  return (
    <form className="fields wide" onSubmit={submit}>
      {!isNewVersion && (
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
        {isNewVersion ? 'Create version' : 'Create'}
      </button>
      {create.isError && <ProblemNote error={create.error} />}
    </form>
  )
}

type DraftFiles = ConfigurationDraft['files']

function FileFields({ files, onChange }: { files: DraftFiles; onChange: (files: DraftFiles) => void }) {
  const changeFile = (changedIndex: number, changes: Partial<DraftFiles[number]>) =>
    onChange(files.map((file, index) => (index === changedIndex ? { ...file, ...changes } : file)))
  const upload = async (chosen: FileList | null) => {
    const added = await Promise.all([...(chosen ?? [])].map(readUpload))
    const addedPaths = new Set(added.map(({ path }) => path))
    // Uploads replace files with the same path, and files with a path but no text, such as the initial AGENTS.md.
    const isReplaced = ({ path, text }: DraftFiles[number]) => addedPaths.has(path) || (path !== '' && text === '')
    onChange([...files.filter((file) => !isReplaced(file)), ...added])
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
              onChange={({ target }) => changeFile(index, { path: target.value })}
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
            onChange={({ target }) => changeFile(index, { text: target.value })}
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
