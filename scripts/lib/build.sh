# shellcheck shell=bash
# Builds the extension from a copy, so that the checkout stays as it is and need not be readable by the server's user.

copy_tree() {
  mkdir "$WORK/src"
  (cd "$LIB/../.." && tar -cf - --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' .) |
    tar -xf - -C "$WORK/src" --no-same-owner
  own "$WORK/src"
}

# build_extension: sets SETTINGS, the lines of postgresql.conf by which a server finds the extension in $WORK/inst.
# BUILD_OPTIONS are further ones for the compiler.
# Where the server cannot look into another folder (a build of one's own before version 18), it goes into its own.
build_extension() {
  local destdir=$WORK/inst sharedir libdir
  sharedir=$("$PG_CONFIG" --sharedir)
  libdir=$("$PG_CONFIG" --pkglibdir)
  mkdir "$destdir"
  own "$destdir"

  if grep -q extension_destdir "$BINDIR/postgres"; then
    SETTINGS="extension_destdir = '$destdir'"
    export GD_EXTENSION_DESTDIR=$destdir
  elif [ "$PG_MAJOR" -ge 18 ]; then
    export GD_EXTENSION_CONTROL_PATH="$destdir$sharedir:\$system"
    SETTINGS="extension_control_path = '$GD_EXTENSION_CONTROL_PATH'"
  else
    SETTINGS=
    destdir=
  fi
  if [ -n "$destdir" ]; then
    export GD_DYNAMIC_LIBRARY_PATH="$destdir$libdir:\$libdir"
    SETTINGS+=$'\n'"dynamic_library_path = '$GD_DYNAMIC_LIBRARY_PATH'"
  fi

  as_server make -s -j "$(nproc)" -C "$WORK/src" "PG_CONFIG=$PG_CONFIG" COPT="-Werror ${BUILD_OPTIONS:-}" with_llvm=no >"$WORK/build.log" 2>&1 || build_failed
  if [ -n "$destdir" ]; then
    as_server make -s -C "$WORK/src" "PG_CONFIG=$PG_CONFIG" with_llvm=no install "DESTDIR=$destdir" >>"$WORK/build.log" 2>&1 || build_failed
  else
    make -s -C "$WORK/src" "PG_CONFIG=$PG_CONFIG" with_llvm=no install >>"$WORK/build.log" 2>&1 || build_failed
  fi
}

build_failed() {
  tail -40 "$WORK/build.log" >&2
  die "the extension does not build"
}

# The value of a variable of the Makefile, as make sees it.
make_variable() {
  as_server make -s -C "$WORK/src" "PG_CONFIG=$PG_CONFIG" with_llvm=no --eval="show-variable: ; @echo \$($1)" show-variable
}
