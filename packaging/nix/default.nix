# SPDX-License-Identifier: GPL-2.0-only
# weir for NixOS: the node's command, and the module for a kernel.
#
#   boot.extraModulePackages = [ (weir.module config.boot.kernelPackages.kernel) ];
#   environment.systemPackages = [ weir.command ];
#
# `make nix` evaluates it; it has never been built, as no nixpkgs is within reach there.
{ pkgs ? import <nixpkgs> { } }:
let
  root = ../..;
  version = (builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"))).workspace.package.version;
  meta = {
    description = "Per-cgroup control over dirty pages and writeback";
    license = "GPL-2.0-only";
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
  # Only what each is built from: a change of a page builds nothing anew.
  source = names: builtins.path {
    name = "weir-source";
    path = root;
    filter = path: type:
      let
        below = builtins.substring (builtins.stringLength (toString root) + 1) (-1) path;
        first = builtins.head (builtins.split "/" below);
      in
      builtins.elem first names;
  };
in
{
  command = pkgs.pkgsStatic.rustPlatform.buildRustPackage {
    pname = "weir";
    inherit version meta;
    # All members of the workspace, though the command is of node/ alone: cargo reads them.
    src = source [ "Cargo.toml" "Cargo.lock" "bench" "node" "policy" "docs" "packaging" "scenarios" "tools" ];
    cargoLock.lockFile = root + "/Cargo.lock";
    cargoBuildFlags = [ "--package" "weir" ];
    doCheck = false; # needs guests: .ci/run
    postInstall = ''
      tools/man.sh $out/share/man/man1 node
      install -D -m 644 packaging/completions/weir.bash $out/share/bash-completion/completions/weir
      install -D -m 644 packaging/completions/_weir $out/share/zsh/site-functions/_weir
      install -D -m 644 packaging/completions/weir.fish $out/share/fish/vendor_completions.d/weir.fish
    '';
  };
  module = kernel: pkgs.stdenv.mkDerivation {
    pname = "weir-module-${kernel.modDirVersion}";
    inherit version meta;
    src = source [ "kmod" "policy" "LICENSE" ];
    hardeningDisable = [ "pic" ];
    nativeBuildInputs = kernel.moduleBuildDependencies;
    buildPhase = ''
      make -C kmod KDIR=${kernel.dev}/lib/modules/${kernel.modDirVersion}/build modules
    '';
    installPhase = ''
      install -D -m 644 kmod/weir.ko $out/lib/modules/${kernel.modDirVersion}/extra/weir.ko
    '';
  };
}
