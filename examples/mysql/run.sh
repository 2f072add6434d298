#!/bin/sh
# The story of this example from the first command to the last, with data that is compared byte by byte.
#
#   KUBECTL="kubectl --kubeconfig ..." sh examples/mysql/run.sh ga|prototype
#
# For `ullage up`, where volumes are directories of this machine: the script is the database, and writes the files itself.
#   KUBECTL   how kubectl is called (kubectl)
#   WORK      where copies of the data are kept for the comparison (a temporary directory, removed at the end)
#   TIMEOUT   how long each wait may take (60s)
set -eu

dialect=${1:-}
here=$(dirname "$0")
patience=${TIMEOUT:-60s}

case $dialect in
ga)
    snapshots=volumesnapshots.snapshot.storage.k8s.io
    records=volumesnapshotcontents.snapshot.storage.k8s.io
    ready="jsonpath={.status.readyToUse}=true"
    record="{.status.boundVolumeSnapshotContentName}"
    ;;
prototype)
    snapshots=volumesnapshots.volumesnapshot.external-storage.k8s.io
    records=volumesnapshotdatas.volumesnapshot.external-storage.k8s.io
    ready="condition=Ready"
    record="{.spec.snapshotDataName}"
    ;;
*)
    echo "usage: $0 ga|prototype" >&2
    exit 2
    ;;
esac

if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi

kubectl() {
    # KUBECTL may have options in it: it is split on purpose.
    # shellcheck disable=SC2086
    command ${KUBECTL:-kubectl} "$@"
}

say() {
    printf '\n== %s\n' "$*"
}

# The directory of a claim's volume.
files_of() {
    volume=$(kubectl get pvc "$1" -o "jsonpath={.spec.volumeName}")
    kubectl get pv "$volume" -o "jsonpath={.spec.hostPath.path}"
}

bound() {
    kubectl wait --for="jsonpath={.status.phase}=Bound" "pvc/$1" --timeout="$patience"
}

same() {
    diff -r "$1" "$2" || {
        echo "FAILED: $3" >&2
        exit 1
    }
    echo "byte by byte: $3"
}

say "The database runs, with its data on claim-mysql"
kubectl create -f "$here/$dialect/1-database.yaml"
bound claim-mysql
kubectl wait --for=condition=Ready pod/mysql --timeout="$patience"
data=$(files_of claim-mysql)
mkdir -p "$data/wp_db"
head -c 3000000 /dev/urandom >"$data/ibdata1"
head -c 70001 /dev/urandom >"$data/wp_db/posts.ibd"
head -c 4096 /dev/urandom >"$data/wp_db/drafts.ibd"
: >"$data/wp_db/empty.frm"
cp -R "$data" "$WORK/before"

say "FLUSH TABLES WITH READ LOCK: nothing is written from here on"
kubectl create -f "$here/$dialect/2-snapshot.yaml"
kubectl wait --for="$ready" "$snapshots/mysql-snapshot" --timeout="$patience"
kubectl get "$snapshots"

say "UNLOCK TABLES: the database goes on, and its data changes"
head -c 50000 /dev/urandom >"$data/wp_db/posts.ibd"
printf 'one more row' >>"$data/ibdata1"
rm "$data/wp_db/drafts.ibd"
head -c 1234 /dev/urandom >"$data/wp_db/comments.ibd"
cp -R "$data" "$WORK/after"

say "The snapshot becomes a new volume"
kubectl create -f "$here/$dialect/3-restore.yaml"
bound snapshot-data-claim
restored=$(files_of snapshot-data-claim)
same "$WORK/before" "$restored" "snapshot-data-claim has the data of the moment of the snapshot"
same "$WORK/after" "$data" "claim-mysql has what was written since"

say "A job copies it to the backups"
kubectl create -f "$here/$dialect/4-sync.yaml"
kubectl wait --for=condition=Complete job/mysql-sync --timeout="$patience"
same "$WORK/before" "$(files_of mysql-backups)/data" "mysql-backups has the data of the moment of the snapshot"

say "The restored claim and the snapshot are deleted, and what they stood for goes with them"
volume=$(kubectl get pvc snapshot-data-claim -o "jsonpath={.spec.volumeName}")
stored=$(kubectl get "$snapshots/mysql-snapshot" -o "jsonpath=$record")
kubectl delete pvc snapshot-data-claim --timeout="$patience"
kubectl delete "$snapshots/mysql-snapshot" --timeout="$patience"
kubectl wait --for=delete "pv/$volume" --timeout="$patience"
kubectl wait --for=delete "$records/$stored" --timeout="$patience"
if [ -e "$restored" ]; then
    echo "FAILED: $restored is still there" >&2
    exit 1
fi
same "$WORK/after" "$data" "claim-mysql has what was written since"
same "$WORK/before" "$(files_of mysql-backups)/data" "mysql-backups has the data of the moment of the snapshot"

say "Done. To take away the rest: kubectl delete -f $here/$dialect/1-database.yaml -f $here/$dialect/4-sync.yaml"
