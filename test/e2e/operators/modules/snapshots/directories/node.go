package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// node mounts volumes where the kubelet of a node wants them.
type node struct {
	csi.UnimplementedNodeServer
	controller
	name string
}

func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.name}, nil
}

func (node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume mounts one; it may be mounted already.
func (n node) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	from, err := n.path("volumes", r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(from); err != nil {
		return nil, status.Error(codes.NotFound, r.GetVolumeId())
	}
	if _, err := n.NodeUnpublishVolume(context.Background(), &csi.NodeUnpublishVolumeRequest{TargetPath: r.GetTargetPath()}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.GetTargetPath(), 0o750); err != nil {
		return nil, err
	}
	if err := syscall.Mount(from, r.GetTargetPath(), "", syscall.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("mounting %s at %s: %w", from, r.GetTargetPath(), err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume ends all mounts at a place.
func (node) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	for {
		err := syscall.Unmount(r.GetTargetPath(), 0)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) { // it is no mount
			break
		}
		if err != nil {
			return nil, fmt.Errorf("unmounting %s: %w", r.GetTargetPath(), err)
		}
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// register has a kubelet find the driver, as a node-driver-registrar does.
func register(registry, socket string) error {
	listener, err := net.Listen("unix", filepath.Join(registry, name+"-reg.sock"))
	if err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, registrar{socket: socket})
	return server.Serve(listener)
}

type registrar struct {
	registration.UnimplementedRegistrationServer
	socket string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: name, Endpoint: r.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		fmt.Fprintln(os.Stderr, "the kubelet does not take it:", s.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}
