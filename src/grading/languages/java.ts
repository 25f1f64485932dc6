import { gradle, maven } from '../runners/java.ts'
import type { TreeFacts } from '../suite.ts'
import { escapePattern, type LanguageEcosystem, type SourceLanguage } from './language.ts'
import { DEPS, type EnvRecipe, listFilesNamed, present, recipe, textsNamed } from './recipe.ts'

/**
 * Runs all tests once during the build: Maven determines the plug-ins it needs only then. Failures are ignored and the
 * reports removed.
 */
const buildMavenRecipe = (tree: TreeFacts): EnvRecipe =>
  recipe({
    runner: maven.id,
    aptPackages: ['default-jdk-headless', 'maven'],
    env: { MAVEN_OPTS: `-Dmaven.repo.local=${DEPS}/m2` },
    manifests: [...listFilesNamed(tree, /^pom\.xml$/), ...present(tree, '.mvn/maven.config', '.mvn/extensions.xml')],
    // Fails where modules depend on each other, and still downloads most dependencies.
    setup: ['mvn -B -q dependency:go-offline || true'],
    build: [
      'mvn -B -q -fae test -Dmaven.test.failure.ignore=true',
      'find . -name surefire-reports -type d -prune -exec rm -rf {} +',
    ],
  })

function buildGradleRecipe(tree: TreeFacts): EnvRecipe {
  const hasWrapper = tree.paths.has('gradlew')
  const program = hasWrapper ? 'sh ./gradlew' : 'gradle'
  return recipe({
    runner: gradle.id,
    aptPackages: ['default-jdk-headless', ...(hasWrapper ? [] : ['gradle'])],
    env: { GRADLE_USER_HOME: `${DEPS}/gradle` },
    build: [`${program} --no-daemon -q test --continue || ${program} --no-daemon -q testClasses`],
  })
}

const POM_LENGTH_MAX = 64 * 1024

/** Returns `group:artifact` of the project itself, ignoring its parent and its dependencies. */
function findArtifact(whole: string): string | undefined {
  const text = whole.slice(0, POM_LENGTH_MAX)
  const own = text.replaceAll(/<(parent|dependencies|build|profiles|dependencyManagement)>.*?<\/\1>/gs, '')
  const parent = /<parent>.*?<\/parent>/s.exec(text)?.[0] ?? ''
  const value = (name: string, xml: string) => new RegExp(`<${name}>\\s*([\\w.-]+)\\s*</${name}>`).exec(xml)?.[1]
  const [group, artifact] = [value('groupId', own) ?? value('groupId', parent), value('artifactId', own)]
  return group === undefined || artifact === undefined ? undefined : `${group}:${artifact}`
}

const JVM_SYNTAX = { comments: 'slashes', singleQuote: 'character', hasInlineTests: false } as const
const sources: SourceLanguage[] = [
  { name: 'java', extensions: ['java'], ...JVM_SYNTAX },
  { name: 'kotlin', extensions: ['kt', 'kts'], ...JVM_SYNTAX },
]

const BUILD_ARGS = ['JAVA_TOOL_OPTIONS']

export const java: LanguageEcosystem = {
  id: 'java',
  sources,
  tests: {
    names: [/[a-z0-9](Test|Tests|TestCase|Spec|IT)\.(java|kt)$/],
    support: [],
    extensions: ['.java', '.kt'],
  },
  dependencyFiles: ['pom.xml', 'build.gradle', 'build.gradle.kts', 'gradle.lockfile', 'libs.versions.toml'],
  buildFiles: [
    'pom.xml',
    'build.gradle',
    'build.gradle.kts',
    'settings.gradle',
    'settings.gradle.kts',
    'gradle-wrapper.properties',
  ],
  buildFilePatterns: [],
  readTestFiles: null,
  packageNames: (tree) => textsNamed(tree, /^pom\.xml$/).flatMap((text) => findArtifact(text) ?? []),
  publishedCopy: (name) => {
    const [group = '', artifact = ''] = name.split(':')
    return `/m2/(?:.*/)?${escapePattern(group.replaceAll('.', '/'))}/${escapePattern(artifact)}$`
  },
  runners: [
    { runner: maven, buildRecipe: buildMavenRecipe, artefacts: ['target/'], buildArgs: BUILD_ARGS },
    { runner: gradle, buildRecipe: buildGradleRecipe, artefacts: ['build/', '.gradle/'], buildArgs: BUILD_ARGS },
  ],
  hidesModules: false,
  testConfiguration: [],
  stubs: [],
}
