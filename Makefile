# Every target works on a fresh clone: it makes .venv itself and remembers in stamp files what is done.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check
RUNS ?= 20000
SEED ?= 1
POINTS ?= 20000
SEEDS ?= 1000
FAULTS ?= 12
SECONDS ?= 60
UPLOT ?= 1.6.32
CONSOLE_VENDOR := src/leveret/protocols/console/page/vendor

# What only tests need of compiled code, and what the package has.
COMPILED_TESTS := $(wildcard tests/storage/journal/*.pyx)
COMPILED := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h') $(COMPILED_TESTS)
STUBS := $(subst /,.,$(patsubst src/%.pyx,%,$(filter src/%.pyx,$(COMPILED))))
TREES := $(wildcard src tests bench examples)
BENCHES := $(wildcard bench/bench_$(or $(BENCH),*).py)
LOAD := $(wildcard bench/amqp/load/*.[ch])
EXAMPLES := $(wildcard examples/$(or $(EXAMPLE),*).py)
FUZZERS := $(wildcard tests/fuzz/fuzz_$(or $(FUZZ),*).py)
# What reads bytes from outside or handles raw memory: the codec, the queues, the journal and streams.
SANITIZED := $(wildcard tests/core tests/storage/journal tests/storage/stream tests/protocols/amqp tests/protocols/sqs/test_texts.py)
PYTEST_OPTIONS := $(if $(filter true,$(CI)),--durations=10)
# tests/schedule.py says how many processes there are, and which tests stay together in one of them.
AT_ONCE := --numprocesses=auto

# Some containers forbid Python to keep what it compiled; each of the hundreds of servers of the tests would do it again.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help attack soak screenshots report-picture build serve test slow nightly coverage counts parts check lint types stubs rules bench bench-table rabbitmq-install sim sim-cluster jepsen fuzz asan example deploy-check dist lock release image image-check vendor clean rabbitmq clients kill restarts demo spark-slow spark-cluster spark-kill cluster cluster-kill

help:  ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-23s %s\n", $$1, $$2}'

build: $(VENV)/.built  ## compile the extensions; the package runs from src/ inside .venv

serve: $(VENV)/.built  ## run a server on ./data; ARGS="--amqp-port 5673" is passed on
	@exec $(PY) -m leveret serve $(ARGS)

test: $(VENV)/.dev $(VENV)/.parts  ## run the tests, on all cores; ARGS="-k name" is passed to pytest, which then runs on one
	$(PY) -m pytest $(PYTEST_OPTIONS) $(or $(ARGS),$(AT_ONCE) || { test $$? = 1 && $(again); })

# Servers are measured too, unless a test kills them. A figure without all tests passing is still a figure, but not a success.
coverage: $(VENV)/.dev $(VENV)/.parts  ## measure branch coverage of the Python modules, by package; ARGS="tests/protocols/rest" selects tests, which then run on one core
	rm -rf build/coverage && mkdir -p build/coverage
	@$(PY) -m coverage run -m pytest $(or $(ARGS),$(AT_ONCE)); result=$$?; \
	$(PY) -m coverage combine --quiet && $(PY) -m coverage json --quiet -o build/coverage/report.json \
		&& $(PY) -m tests.coverage_table build/coverage/report.json && exit $$result

counts: $(VENV)/.dev  ## say how many cases the tables of golden answers and of security have
	@$(PY) -m tests.counts

clients: $(VENV)/.dev $(VENV)/.parts  ## run the tests that client libraries ship for themselves; CLIENT=name selects one
	@$(PY) -m tests.clients.suites $(CLIENT)

parts: $(VENV)/.parts  ## install the foreign programs that tests use: clients in C and JavaScript

check: lint types stubs rules  ## lint, formatting, types, stubs and the rules of the repository

lint: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/.dev
	$(PY) -m mypy --strict --num-workers auto $(TREES) setup.py stubs.py

# Disjoint bases are not for Python 3.11.
stubs: $(VENV)/.dev
	@$(PY) -m mypy.stubtest --mypy-config-file pyproject.toml --ignore-missing-stub --ignore-disjoint-bases $(STUBS)

rules: $(VENV)/.dev
	$(PY) -m pytest -q $(PYTEST_OPTIONS) tests/test_tidy.py tests/test_words.py tests/test_architecture.py

bench: $(VENV)/.dev build/amqpload  ## run bench/bench_*.py, one JSON line each; BENCH=name selects one, QUICK=1 shortens
	@$(call some,$(BENCHES),bench/bench_$(or $(BENCH),*).py)
	@set -e; for file in $(BENCHES); do QUICK=$(QUICK) $(PY) -m bench.$$(basename $$file .py) $(ARGS); done

bench-table: $(VENV)/.dev  ## put the figures of the last `make bench BENCH=amqp` into docs/benchmarks.md
	$(PY) -m bench.amqp.table build/bench_amqp.jsonl docs/benchmarks.md

rabbitmq-install:  ## install Debian's RabbitMQ, to compare with; needs root
	@test "$$(id -u)" = 0 || { echo 'This installs packages: run it as root, `sudo make rabbitmq-install`.' >&2; exit 1; }
	@command -v apt-get >/dev/null || { echo 'There is no apt-get here: install RabbitMQ by hand.' >&2; exit 1; }
	apt-get install --yes --no-install-recommends rabbitmq-server
	@# The benchmark starts a node of its own; the system's service would only share the machine with it.
	if test -d /run/systemd/system; then systemctl disable --now rabbitmq-server; fi

rabbitmq: $(VENV)/.dev  ## compare with RabbitMQ, which is started if it is installed; ARGS="-k name" is passed to pytest
	RABBITMQ=1 $(PY) -m pytest $(PYTEST_OPTIONS) tests/rabbitmq tests/client/test_amqp_client.py $(ARGS)

sim: $(VENV)/.dev  ## crash the journal at many points; SEED=n replays, POINTS=n sets how many
	$(PY) -m tests.sim --seed $(SEED) --points $(POINTS)

sim-cluster: $(VENV)/.dev  ## let clusters meet faults in virtual time; SEED=n replays, SEEDS=n sets how many
	$(PY) -m tests.sim.cluster --seed $(SEED) --seeds $(SEEDS)

jepsen: $(VENV)/.dev $(VENV)/.parts  ## let a real cluster of three nodes meet faults, and check what clients saw; FAULTS=n, SEED=n; root: network cuts, too; BROKEN=name: with a mistake
	@$(PY) -m tests.jepsen --seed $(SEED) $(if $(BROKEN),--broken $(BROKEN),--faults $(FAULTS)) $(ARGS)

attack: $(VENV)/.dev  ## flood a server from one address, and measure what clients from another notice; FLOOD=name selects one
	@$(PY) -m tests.attack $(FLOOD) $(ARGS)

soak: $(VENV)/.dev  ## let queues and clients come and go for an hour, a line of JSON each minute; MINUTES=n; fails when memory grows
	@$(PY) -m tests.soak $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

kill: $(VENV)/.dev  ## kill a server under load again and again; SECONDS=n says for how long
	$(PY) -m tests.durability.server_kill $(SECONDS)

nightly: $(VENV)/.dev $(VENV)/.parts  ## run the long checks with fixed budgets, and print one table; JOB="sim kill" selects, QUICK=1 shortens
	@$(PY) -m tests.nightly $(if $(QUICK),--quick) $(JOB) $(ARGS)

slow: $(VENV)/.dev $(VENV)/.parts  ## run the tests that repeat at length what `make test` covers in short
	$(PY) -m pytest $(PYTEST_OPTIONS) -m slow $(or $(ARGS),$(AT_ONCE))

restarts: $(VENV)/.dev $(VENV)/.parts  ## kill a server and the nodes of a cluster amid dead letters, and count; ROUNDS=n; the table goes into docs/durability.md
	@$(PY) -m tests.durability.restarts --rounds $(or $(ROUNDS),5) docs/durability.md

fuzz: $(VENV)/.fuzz  ## run tests/fuzz/fuzz_*.py; RUNS=n bounds each, FUZZ=name selects one
	@$(call some,$(FUZZERS),tests/fuzz/fuzz_$(or $(FUZZ),*).py)
	@set -e; for file in $(FUZZERS); do PYTHONPATH=. $(PY) $$file -runs=$(RUNS); done

# The sanitized modules live in a tree of their own, in front of src/ on the path: `make test` never meets them.
# A report is written past Python to the standard error stream, so pytest must not capture that one.
asan: $(VENV)/.dev  ## run the codec, queue and journal tests and the fuzzers under AddressSanitizer
	@$(call some,$(SANITIZED),tests/core or tests/storage/journal)
	rm -rf build/asan
	LEVERET_SANITIZE=address $(PY) setup.py -q build --build-base build/asan --build-lib build/asan/lib
	$(sanitizer) $(PY) -m pytest -q --capture=sys --timeout=600 $(SANITIZED) $(ARGS)
	@$(PY) -c 'import atheris' 2>/dev/null || { \
		echo 'The fuzzers were left out: `make fuzz` installs atheris, then run this again.'; exit 0; }; \
	set -e; for file in $(FUZZERS); do $(sanitizer) $(PY) $$file -runs=$(RUNS); done

example: $(VENV)/.built  ## run examples/*.py; EXAMPLE=name selects one
	@$(call some,$(EXAMPLES),examples/$(or $(EXAMPLE),*).py)
	@set -e; for file in $(EXAMPLES); do echo "== $$file"; $(PY) $$file; done

demo: $(VENV)/.dev  ## run a broker under traffic that fails now and then, and report on it; needs Java
	@$(PY) -m examples.demo $(ARGS)

cluster: $(VENV)/.dev $(VENV)/.parts  ## run three nodes with PostgreSQL, etcd and Redis on this machine, until Ctrl-C; prints how to connect
	@$(PY) -m examples.cluster

cluster-kill: $(VENV)/.dev $(VENV)/.parts  ## kill the owner of a queue while pika consumes from it; what happens goes into docs/cluster.md
	@$(PY) -m examples.cluster.failover docs/cluster.md

spark-slow: $(VENV)/.dev $(addprefix $(VENV)/,$(addsuffix /.made,spark-oldest spark-connect dbt airflow))  ## run the tests of Spark that `make test` leaves out: those with a Java of their own
	$(PY) -m pytest $(PYTEST_OPTIONS) -m spark_slow tests/spark $(ARGS)

spark-cluster: $(VENV)/.dev $(VENV)/spark-connect/.made  ## make the same report here and on a Spark cluster of three processes, and compare all rows
	@$(PY) -m tests.spark.cluster

spark-kill: $(VENV)/.dev  ## kill drivers, executors and servers amid queries of Spark, and count rows; KILLS=n for each kind
	@$(PY) -m tests.spark.kills $(or $(KILLS),2)

# Needs Chromium, which `make parts` installs, and Java for the report. Look at what it made before you commit it.
screenshots: $(VENV)/.dev $(VENV)/.parts  ## pictures of the console and transcripts of commands, of a broker at work, into docs/
	@$(PY) -m tests.protocols.console.screenshots
	@$(PY) -m tests.spark.report_shots

report-picture: $(VENV)/.dev  ## the picture of a report alone, of a generated day; whole pages at all sizes go to build/screenshots; needs Java
	@$(PY) -m tests.spark.report_shots

deploy-check: $(VENV)/.dev  ## check what is in deploy/ without running it, and say what was not checked
	@$(PY) -m tests.deploy

dist:  ## make the sdist and wheels in dist/, in environments of their own; PYTHONS="python3.11 python3.12" says for which
	@$(PYTHON) -m deploy.dist --pure $(addprefix --python ,$(PYTHONS)) $(ARGS)

# Without addresses of an index, and without the package itself, whose line pip-compile cannot give a hash.
lock:  ## make requirements-dev.lock anew: versions and hashes of what development needs, by pip-compile
	$(PYTHON) -m venv --clear build/lock && build/lock/bin/pip install --quiet --disable-pip-version-check pip-tools
	build/lock/bin/pip-compile --quiet --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --no-emit-options --strip-extras --allow-unsafe --extra dev --output-file build/lock/all pyproject.toml
	{ sed -n '/^#/p' requirements-dev.lock; sed '/^#/d; /^leveret @/d; /^$$/d' build/lock/all; } > build/lock/new
	mv build/lock/new requirements-dev.lock

release:  ## make a release in a clone: version, changelog, tag, sdist, wheels, SBOM, checksums; VERSION=1.2.3, PYTHONS, DRY_RUN=1
	@$(PYTHON) -m deploy.release $(VERSION) $(if $(DRY_RUN),--dry-run) $(addprefix --python ,$(PYTHONS)) $(ARGS)

# Options of the engine that this machine needs: BUILD="--isolation=chroot", RUN="--cgroups=disabled".
image:  ## build the container image; BASE=image names what is below it, without one debootstrap makes it, as root; ENGINE=docker
	@$(PYTHON) -m deploy.image --engine $(or $(ENGINE),podman) $(if $(BASE),--base $(BASE)) $(ARGS) -- $(BUILD)

image-check: $(VENV)/.dev  ## run the image with a read-only root, use it over AMQP, SQS and REST, stop it, print its size; RUN=options of the engine
	@$(PY) -m tests.deploy.image_check --engine $(or $(ENGINE),podman) -- $(RUN)

# Checked in, so that nobody needs npm to build: this is for a newer version.
vendor:  ## fetch uPlot, the charts of the console, by npm; UPLOT=version selects one
	rm -rf build/vendor && mkdir -p build/vendor
	cd build/vendor && npm pack --silent uplot@$(UPLOT) && tar xzf uplot-*.tgz
	cp build/vendor/package/dist/uPlot.iife.min.js $(CONSOLE_VENDOR)/uPlot.js
	cp build/vendor/package/dist/uPlot.min.css $(CONSOLE_VENDOR)/uPlot.css
	cp build/vendor/package/LICENSE $(CONSOLE_VENDOR)/uPlot-LICENSE.txt

clean:  ## remove everything that was made here, .venv too
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(TREES) -name '*.so' -delete
	find $(TREES) -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Leveret needs Python 3.11 or newer: name one with `make PYTHON=python3.12 ...`.' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo 'Python cannot make a virtual environment: on Debian, `apt-get install python3-venv`.' >&2; exit 1; }
	@touch $@

# A compiled module beside an edited source would win silently, so all of them go before anything is compiled.
# A change of the build's own settings also drops the generated C: Cython looks at time stamps only.
$(VENV)/.built: pyproject.toml setup.py stubs.py $(COMPILED) | $(VENV)/.created
	@printf '#include <Python.h>\n' | $${CC:-cc} -fsyntax-only -xc \
		-I"$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("include"))')" - || { \
		echo 'A C compiler and the Python headers are needed: on Debian, `apt-get install build-essential python3-dev`.' >&2; \
		exit 1; }
	@find src $(dir $(COMPILED_TESTS)) -name '*.so' -delete
	$(if $(filter pyproject.toml setup.py,$?),$(install),$(PY) setup.py -q build_ext --inplace)
	$(if $(COMPILED_TESTS),@$(PY) -m Cython.Build.Cythonize --quiet --inplace $(COMPILED_TESTS))
	@touch $@

# Spark comes as a source package, of which pip makes a wheel for a minute or more: meanwhile our own modules are compiled.
$(VENV)/.dev: pyproject.toml setup.py stubs.py $(COMPILED) | $(VENV)/.created
	@$(if $(filter pyproject.toml,$?),$(call wanted,["project"]["optional-dependencies"]["pipeline"]) \
		| $(PIP) wheel --wheel-dir $(VENV)/wheels --requirement /dev/stdin & ) \
	$(MAKE_COMMAND) --no-print-directory $(VENV)/.built && wait
	$(if $(filter pyproject.toml,$?),$(call wanted,["project"]["optional-dependencies"]["dev"]) \
		| $(PIP) install --find-links $(VENV)/wheels --requirement /dev/stdin)
	@rm -rf $(VENV)/wheels
	@touch $@

# Without a stamp when something is missing: the next run tries again.
$(VENV)/.parts: $(VENV)/.dev tests/parts.py
	@$(PY) -m tests.parts && touch $@ || true

$(VENV)/.fuzz: $(VENV)/.dev
	@$(PIP) install --only-binary :all: atheris || { \
		echo 'There is no atheris wheel for this Python: use one it is published for, `make PYTHON=... fuzz`.' >&2; exit 1; }
	@touch $@

# Beside the one in .venv, which tests put behind it on their path.
$(VENV)/spark-oldest/.made: | $(VENV)/.created
	@$(call wanted,["project"]["optional-dependencies"]["pipeline"]) | sed -n 's/^pyspark>=/pyspark==/p' \
		| $(PIP) install --upgrade --target $(@D) --requirement /dev/stdin
	@touch $@

# What clients of Spark Connect and Declarative Pipelines need; too much for all who run tests.
$(VENV)/spark-connect/.made: | $(VENV)/.created
	@$(PIP) install --upgrade --target $(@D) \
		'pandas>=2.2,<3' 'grpcio>=1.76' 'grpcio-status>=1.76' 'googleapis-common-protos>=1.71' 'zstandard>=0.25' 'pyyaml>=6'
	@touch $@

# Each has an environment of its own: they need other versions of what others need, too.
$(VENV)/dbt/.made $(VENV)/airflow/.made: | $(VENV)/.created
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip --quiet install $(if $(findstring dbt,$@),'dbt-core<1.11' 'dbt-duckdb<1.11' \
		duckdb==1.5.5 duckdb-extension-avro==1.5.5 duckdb-extension-iceberg==1.5.5,'apache-airflow>=3.3')
	@touch $@

build/amqpload: $(LOAD)
	@mkdir -p build
	$${CC:-cc} -O2 -flto -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wshadow -pthread $(filter %.c,$^) -o $@

# The requirements in one place of pyproject.toml, a line each.
wanted = $(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))$(1), sep="\n")'

define install
rm -rf build
	$(call wanted,["build-system"]["requires"]) | $(PIP) install --requirement /dev/stdin
	$(PIP) install --no-build-isolation --editable '.[server]'
endef

# Of thousands of tests with real servers one may meet a machine that stands still: who fails is asked again, alone, and is
# listed either way. One that passes only then counts on who is first somewhere: that is a bug, of the test or of Leveret.
define again
{ echo '== Those that failed, once more, one at a time. Whatever passes now is unsteady: look why.'; \
	$(PY) -m pytest --last-failed --last-failed-no-failures=none --maxfail=1 -rap; }
endef

sanitizer = LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	PYTHONMALLOC=malloc PYTHONPATH=build/asan/lib:.

# Fails with a sentence when a list of files is empty: a target that does nothing must not look like a success.
some = test -n '$(1)' || { echo 'There is no $(2) here.' >&2; exit 1; }
