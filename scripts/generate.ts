import { readFile, writeFile } from 'node:fs/promises'
import { generate, getDialect, RawExpressionNode } from 'kysely-codegen'
import { z } from 'zod'
import about from '../package.json' with { type: 'json' }
import { endpointGroups, routeGroups } from '../src/app.ts'
import { readConfig } from '../src/config.ts'
import { harnesses } from '../src/harnesses/harnesses.ts'
import type { Db } from '../src/platform/db/db.ts'
import { buildOpenApiDocument } from '../src/platform/http/openapi.ts'
import { createLog } from '../src/platform/log.ts'
import { openServices } from '../src/services.ts'
import { generateAppEndpoints } from './app-endpoints.ts'
import { loadCanaryTasks } from './canary-tasks.ts'
import { type ScratchDatabase, withScratchDatabase } from './scratch-database.ts'
import { readContract } from './sdk-operations.ts'
import { renderPythonSdk } from './sdk-python.ts'
import { renderTypescriptSdk } from './sdk-typescript.ts'

// `npm run gen`: writes generated files. With --check it writes nothing and lists the files that are out of date.

type GeneratedFile = { path: string; text: string }

const ROOT = new URL('../', import.meta.url)

const CodegenSettings = z.object({
  outFile: z.string(),
  excludePattern: z.string(),
  typeMapping: z.record(z.string(), z.string()),
  overrides: z.object({ columns: z.record(z.string(), z.string()) }),
})

/** Generates the types of the tables after all migrations. */
async function generateTableTypes(db: Db): Promise<GeneratedFile> {
  const settings = CodegenSettings.parse(JSON.parse(await readFile(new URL('.kysely-codegenrc.json', ROOT), 'utf8')))
  // Plain text would be parsed with TypeScript's compiler API, which TypeScript 7 does not have.
  const columns = Object.entries(settings.overrides.columns).map(([name, type]) => [name, new RawExpressionNode(type)])
  const text = await generate({
    db,
    dialect: getDialect('postgres'),
    excludePattern: settings.excludePattern,
    typeMapping: settings.typeMapping,
    overrides: { columns: Object.fromEntries(columns) },
    outFile: null,
  })
  return { path: settings.outFile, text }
}

/** Generates the response of `/openapi.json`, for readers without a server. */
async function generateOpenApi({ database, folder }: ScratchDatabase): Promise<GeneratedFile> {
  const services = await openServices(readConfig({ ASSAY_DATA: folder }), database, createLog('silent'))
  const url = 'http://localhost:4000'
  const document = buildOpenApiDocument(endpointGroups(routeGroups(services)), { version: about.version, url })
  return { path: 'docs/openapi.json', text: `${JSON.stringify(document, null, 2)}\n` }
}

/** Generates the types and operations of both SDKs from the OpenAPI document. */
function generateSdkFiles({ text }: GeneratedFile): GeneratedFile[] {
  const contract = readContract(JSON.parse(text))
  return [
    { path: 'sdk/typescript/src/operations.gen.ts', text: renderTypescriptSdk(contract) },
    { path: 'sdk/python/assay_sdk/operations_gen.py', text: renderPythonSdk(contract) },
  ]
}

/** Generates the tasks of `assay batches canaries`. */
const generateCanaries = async (): Promise<GeneratedFile> => ({
  path: 'src/taskgen/canaries/tasks.gen.json',
  text: `${JSON.stringify(await loadCanaryTasks(), null, 2)}\n`,
})

/** Generates the names of the built-in harnesses by id, for pages, which may import only contracts. */
const generateHarnessNames = (): GeneratedFile => ({
  path: 'web/components/harness-names.gen.json',
  text: `${JSON.stringify(Object.fromEntries(harnesses.map(({ id, name }) => [id, name])), null, 2)}\n`,
})

const isCurrent = async ({ path, text }: GeneratedFile): Promise<boolean> =>
  (await readFile(new URL(path, ROOT), 'utf8').catch(() => undefined)) === text

async function main(): Promise<void> {
  const checkOnly = process.argv.includes('--check')
  const [tableTypes, document] = await withScratchDatabase(
    async (scratch) => [await generateTableTypes(scratch.database.db), await generateOpenApi(scratch)] as const,
  )
  const files = [
    tableTypes,
    document,
    ...generateSdkFiles(document),
    await generateCanaries(),
    generateHarnessNames(),
    { path: 'web/app/endpoints.gen.ts', text: await generateAppEndpoints() },
  ]
  for (const file of files) {
    if (await isCurrent(file)) continue
    if (!checkOnly) await writeFile(new URL(file.path, ROOT), file.text)
    console.log(checkOnly ? `${file.path} is out of date. Run npm run gen.` : `${file.path} written`)
    if (checkOnly) process.exitCode = 1
  }
}

await main()
