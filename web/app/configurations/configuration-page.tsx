import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Configuration } from '../../../src/configurations/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { VirtualLines } from '../components/virtual-lines.tsx'
import { listConfigurations, readConfiguration } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { ConfigurationForm } from './configuration-form.tsx'

const ROUTE = '/configurations/$name'

/** Shows one version of a configuration with its content. A version never changes; editing creates another one. */
export function ConfigurationPage() {
  const { name } = useParams({ from: ROUTE })
  const { version } = useSearch({ from: ROUTE })
  const [isEditing, setEditing] = useState(false)
  const navigate = useNavigate()
  const configuration = useRead(readConfiguration, { params: { name }, query: version ? { version } : {} })
  const mayWrite = useHasPermission('write')
  return (
    <Page
      title={name}
      crumbs={<Link to="/configurations">Configurations</Link>}
      state={configuration.data && <span className="chip">version {configuration.data.version}</span>}
      actions={
        mayWrite && (
          <button type="button" className="button" aria-pressed={isEditing} onClick={() => setEditing(!isEditing)}>
            Edit as a new version
          </button>
        )
      }
    >
      <Loaded query={configuration}>
        {(content) =>
          isEditing ? (
            <Card title="New version">
              <ConfigurationForm
                key={content.digest}
                initial={content}
                isNewVersion
                onCreated={(created) => {
                  setEditing(false)
                  void navigate({ to: ROUTE, params: { name }, search: { version: created.version } })
                }}
              />
            </Card>
          ) : (
            <Content content={content} />
          )
        }
      </Loaded>
      <Versions name={name} />
    </Page>
  )
}

function Content({ content }: { content: Configuration }) {
  const { files, instructionPrefix, instructionSuffix, mcpServers, harnesses, digest } = content
  const texts = [
    ['Text before the instruction', instructionPrefix],
    ['Text after the instruction', instructionSuffix],
    ['MCP servers', mcpServers.length > 0 ? JSON.stringify(mcpServers, null, 2) : ''],
    ['Harnesses', Object.keys(harnesses).length > 0 ? JSON.stringify(harnesses, null, 2) : ''],
  ] as const
  return (
    <>
      {files.map(({ path, text, executable }) => (
        <Card
          key={path}
          title={replaceUnsafeCharacters(path)}
          actions={executable && <span className="chip">executable</span>}
        >
          <VirtualLines label={path} lines={text.replace(/\n$/, '').split('\n')} />
        </Card>
      ))}
      {texts
        .filter(([, text]) => text !== '')
        .map(([title, text]) => (
          <Card key={title} title={title}>
            <VirtualLines label={title} lines={text.split('\n')} />
          </Card>
        ))}
      <p className="small muted">Digest {digest}</p>
    </>
  )
}

function Versions({ name }: { name: string }) {
  const all = useRead(listConfigurations, { query: { limit: 200 } })
  return (
    <Card title="Versions">
      <Loaded query={all}>
        {({ configurations }) => {
          const versions = configurations.filter((each) => each.name === name)
          if (versions.length === 0)
            return <Empty command={`assay configurations create ${name} AGENTS.md`}>Versions appear here.</Empty>
          return (
            <ul className="rows">
              {versions.map(({ version, createdAt, digest }) => (
                <li key={digest} className="row-line">
                  <Link to={ROUTE} params={{ name }} search={{ version }}>
                    Version {version}
                  </Link>
                  <span className="muted">{formatTime(createdAt)}</span>
                </li>
              ))}
            </ul>
          )
        }}
      </Loaded>
    </Card>
  )
}
