// Command directories is a CSI driver whose volumes and snapshots are directories of one machine: a backend that
// several physical clusters reach, for tests. Beside a kubelet it mounts them into pods: see node.go.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const name = "directories.example.com"

func main() {
	if len(os.Args) != 3 && len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "directories SOCKET DIRECTORY [NODE REGISTRY]")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves at a socket; kubelet is, if there is one, the name of its node and where it looks for plugins.
func serve(socket, dir string, kubelet []string) error {
	for _, d := range []string{"volumes", "snapshots"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return err
		}
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterControllerServer(server, controller{dir: dir})
	if len(kubelet) > 0 {
		csi.RegisterNodeServer(server, node{controller: controller{dir: dir}, name: kubelet[0]})
		go func() {
			fmt.Fprintln(os.Stderr, register(kubelet[1], socket))
			os.Exit(1)
		}()
	}
	fmt.Println("directories serves at", socket)
	return server.Serve(listener)
}

type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: name, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}}}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

type controller struct {
	csi.UnimplementedControllerServer
	dir string
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// handles are the names that are given out here: no path.
var handles = regexp.MustCompile(`^[a-z]+-[a-zA-Z0-9-]+$`)

// path is where something is; NotFound if it cannot be anywhere.
func (c controller) path(kind, handle string) (string, error) {
	if !handles.MatchString(handle) {
		return "", status.Error(codes.NotFound, handle)
	}
	return filepath.Join(c.dir, kind, handle), nil
}

// copied makes a directory with what is in another one, at once.
func copied(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if _, err := os.Stat(from); err != nil {
		return status.Error(codes.NotFound, filepath.Base(from))
	}
	part := to + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.CopyFS(part, os.DirFS(from)); err != nil {
		return err
	}
	return os.Rename(part, to)
}

func (c controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	handle := "vol-" + r.GetName()
	to, err := c.path("volumes", handle)
	if err != nil {
		return nil, err
	}
	if source := r.GetVolumeContentSource().GetSnapshot(); source != nil {
		from, err := c.path("snapshots", source.GetSnapshotId())
		if err != nil {
			return nil, err
		}
		err = copied(from, to)
		if err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: handle, CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), ContentSource: r.GetVolumeContentSource()}}, nil
}

func (c controller) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	path, err := c.path("volumes", r.GetVolumeId())
	if err == nil {
		err = os.RemoveAll(path)
	}
	return &csi.DeleteVolumeResponse{}, err
}

func (c controller) CreateSnapshot(_ context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	from, err := c.path("volumes", r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	handle := "snap-" + r.GetName()
	to, err := c.path("snapshots", handle)
	if err != nil {
		return nil, err
	}
	if err := copied(from, to); err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshot(handle, r.GetSourceVolumeId())}, nil
}

func snapshot(handle, source string) *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: handle, SourceVolumeId: source, CreationTime: timestamppb.Now(), ReadyToUse: true, SizeBytes: 1 << 20}
}

func (c controller) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	path, err := c.path("snapshots", r.GetSnapshotId())
	if err == nil {
		err = os.RemoveAll(path)
	}
	return &csi.DeleteSnapshotResponse{}, err
}

// ListSnapshots finds one by its handle, as is asked before one that somebody else has made is used.
func (c controller) ListSnapshots(_ context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	out := &csi.ListSnapshotsResponse{}
	if path, err := c.path("snapshots", r.GetSnapshotId()); err == nil {
		if _, err := os.Stat(path); err == nil {
			out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshot(r.GetSnapshotId(), "vol-unknown")})
		}
	}
	return out, nil
}
