import { Link, useParams } from '@tanstack/react-router'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { plural } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { FileBrowser } from '../components/file-browser.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card } from '../components/page.tsx'
import { listBenchmarkTaskFiles, readBenchmarkTaskFile } from '../endpoints.gen.ts'

const ROUTE = '/benchmarks/$datasetOrg/$dataset'

/** The files of a task as they were checked. `taskName` is `org/name`. */
export function TaskFilesCard({ taskName }: { taskName: string }) {
  const benchmark = useParams({ from: ROUTE })
  const [taskOrg = '', task = ''] = taskName.split('/')
  const params = { ...benchmark, taskOrg, task }
  const taskFiles = useRead(listBenchmarkTaskFiles, { params })
  return (
    <Card
      title={`Files of ${replaceUnsafeCharacters(taskName)}`}
      actions={
        <Link to={ROUTE} params={benchmark} className="button" resetScroll={false}>
          Close
        </Link>
      }
    >
      <Loaded query={taskFiles}>
        {({ files, total }) => (
          <>
            <p className="small muted">
              {plural(total, 'file')}, exactly those that passed the safety check
              {total > files.length && `; the first ${files.length} can be chosen here`}.
            </p>
            <FileBrowser
              paths={toReadingOrder(files.map(({ path }) => path))}
              endpoint={readBenchmarkTaskFile}
              toInput={(path) => ({ params: { ...params, path } })}
            />
          </>
        )}
      </Loaded>
    </Card>
  )
}

/** Puts the instruction first, because readers need it to understand the other files. */
const toReadingOrder = (paths: readonly string[]): string[] => [
  ...paths.filter((path) => path === 'instruction.md'),
  ...paths.filter((path) => path !== 'instruction.md'),
]
