# What scripts/demo and scripts/demo-hosts share: they source this in the checkout's folder. What they started
# ends with them, however they end, and build_demo builds blinkd in build/demo.

work= # a directory that goes with the script

# What root has built in a user's checkout is that user's, who could neither build on it nor delete it
# otherwise.
leave_to_owner() {
    local built
    [ "$(id -u)" = 0 ] || return 0
    for built in build/demo build/demo.log build/peers; do
        [ ! -e $built ] || chown -R --reference=. $built
    done
    [ ! -e build ] || chown --reference=. build
}

cleanup() {
    trap - EXIT HUP INT TERM
    for pid in $(jobs -p); do
        kill "$pid" 2>/dev/null || continue
        wait "$pid" 2>/dev/null || true
    done
    [ -z "$work" ] || rm -rf "$work"
    leave_to_owner || true
}
trap cleanup EXIT
trap 'cleanup; exit 129' HUP
trap 'cleanup; exit 130' INT
trap 'cleanup; exit 143' TERM

say() { printf '%s\n' "$*"; }

# usage STATUS: the script's own head
usage() {
    sed -n '2,/^set/{ /^set/!s/^# \{0,1\}//p }' "$0"
    exit "$1"
}

fail() {
    say "${0##*/}: $*" >&2
    [ -z "$work" ] || [ ! -s "$work/blinkd.log" ] || tail -n 20 "$work/blinkd.log" >&2
    exit 1
}

# progress END: how far the build is: in place on a terminal, elsewhere a line every 15 s and one at the end
progress() {
    local step elapsed=$((SECONDS - build_started))
    step=$(sed -n 's|^\(\[[0-9/]*\]\).*|\1|p' build/demo.log | tail -n 1)
    if [ -t 1 ]; then
        printf '\r    %s %d s%s' "${step:-configuring}" "$elapsed" "$1"
    elif [ -n "$1" ] || [ $((elapsed - reported)) -ge 15 ]; then
        reported=$elapsed
        say "    ${step:-configuring} $elapsed s"
    fi
}

# build_demo PACKAGES: install what scripts/setup calls PACKAGES, and build; $bin is where the programs are.
# Nothing here runs on GPUs: the kernels become PTX alone, which the driver of any GPU can assemble.
build_demo() {
    local builder
    say "1/4 packages"
    scripts/setup "$1"
    say "2/4 build"
    mkdir -p build
    build_started=$SECONDS reported=0
    {
        cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DBLINK_TESTS=OFF \
            -DBLINK_CUDA_CODE=arch=compute_75,code=compute_75 &&
            exec ninja -C build/demo
    } >build/demo.log 2>&1 &
    builder=$!
    while kill -0 $builder 2>/dev/null; do
        sleep 1
        progress ""
    done
    wait $builder || { cat build/demo.log; fail "the build failed"; }
    progress $'\n'
    bin=$PWD/build/demo/bin
}
