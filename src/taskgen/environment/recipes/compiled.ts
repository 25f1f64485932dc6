import { DEPS, named, present, type RecipeOf, recipe } from './recipe.ts'

/**
 * Tests are compiled once, so that a run compiles only what a change touches, and finds all it needs offline. A newer Go
 * that the module asks for is a download like others, and lies beside them.
 */
export const go: RecipeOf = (tree, runner) => {
  const isVendored = tree.paths.has('vendor/modules.txt')
  const modules = named(tree, /^go\.(mod|sum|work|work\.sum)$/)
  return recipe({
    runner,
    aptPackages: ['gcc', 'golang-go', 'libc6-dev'],
    env: { GOPATH: `${DEPS}/go`, GOCACHE: `${DEPS}/go-build`, GOFLAGS: '-buildvcs=false', GOTOOLCHAIN: 'auto' },
    manifests: isVendored ? [] : modules,
    setup: isVendored || modules.length === 0 ? [] : ['go mod download'],
    build: [`go test -count=1 -run '^$' ./... > /dev/null || go build ./...`],
  })
}

/** Compiled outside of the tree. Cargo wants to see sources before it fetches, so that all of it is a build. */
export const rust: RecipeOf = (tree, runner) => {
  const locked = tree.paths.has('Cargo.lock') ? ' --locked' : ''
  return recipe({
    runner,
    aptPackages: ['cargo', 'gcc', 'libc6-dev', 'libssl-dev', 'pkg-config'],
    env: { CARGO_HOME: `${DEPS}/cargo`, CARGO_TARGET_DIR: `${DEPS}/target` },
    build: [`cargo fetch${locked}`, `cargo test --no-run --offline${locked}`],
  })
}

/**
 * All tests are run once, because Maven finds out only then which of its plug-ins it needs. What they say counts for
 * nothing, and what they leave goes.
 */
export const maven: RecipeOf = (tree, runner) =>
  recipe({
    runner,
    aptPackages: ['default-jdk-headless', 'maven'],
    env: { MAVEN_OPTS: `-Dmaven.repo.local=${DEPS}/m2` },
    manifests: [...named(tree, /^pom\.xml$/), ...present(tree, '.mvn/maven.config', '.mvn/extensions.xml')],
    // Where modules need each other this cannot end well, and brings most of what is needed.
    setup: ['mvn -B -q dependency:go-offline || true'],
    build: [
      'mvn -B -q -fae test -Dmaven.test.failure.ignore=true',
      'find . -name surefire-reports -type d -prune -exec rm -rf {} +',
    ],
  })

export const gradle: RecipeOf = (tree, runner) => {
  const program = tree.paths.has('gradlew') ? 'sh ./gradlew' : 'gradle'
  return recipe({
    runner,
    aptPackages: ['default-jdk-headless', ...(tree.paths.has('gradlew') ? [] : ['gradle'])],
    env: { GRADLE_USER_HOME: `${DEPS}/gradle` },
    build: [`${program} --no-daemon -q test --continue || ${program} --no-daemon -q testClasses`],
  })
}

/** In the folder where the runner builds again. */
export const cmake: RecipeOf = (_, runner) =>
  recipe({
    runner,
    aptPackages: ['cmake', 'g++', 'make'],
    build: ['cmake -S . -B build', 'cmake --build build --parallel 2'],
  })
